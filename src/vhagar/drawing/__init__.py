"""Shapes, colours and figures as plain data. Knows nothing of results."""
