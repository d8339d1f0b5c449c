"""Defaults of random sampling, which the command line shows without importing more."""

# As in the paper.
SAMPLES = 70_000
LEVEL = 0.05
# Standard deviation of the Gaussian, relative to the input range's width. The paper does not say.
SPREAD = 0.25
