"""Many problems at once: a study, the store that keeps its results, and who works on it."""
