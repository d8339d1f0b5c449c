"""Local robustness: whether one given input keeps its class under a perturbation."""
