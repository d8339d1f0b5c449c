"""Ways to bound the nodes of a search: linear programs, batches on a GPU, first-order steps."""
