"""Many problems at once: a study, the store of its results, and the workers that compute them."""
