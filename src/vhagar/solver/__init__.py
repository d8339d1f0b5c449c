"""Linear and mixed-integer models as plain arrays, and the programs that solve them."""
