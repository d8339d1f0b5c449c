"""Numbers of random sampling. Light: the command line shows them."""

# As in the paper.
SAMPLES = 70_000
LEVEL = 0.05
# The Gaussian's standard deviation beside the width of the input range. The paper does not say.
SPREAD = 0.25
