"""Shapes, colours and figures as plain data, independent of results."""
