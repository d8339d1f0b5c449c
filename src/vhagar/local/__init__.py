"""Local robustness: the same questions about one given input."""
