"""What a model file holds and what becomes of it."""
