"""PyTorch modules and weights as networks."""
