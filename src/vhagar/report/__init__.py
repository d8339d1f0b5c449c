"""Results for people: sentences, the live display, plain lines, and the figure."""
