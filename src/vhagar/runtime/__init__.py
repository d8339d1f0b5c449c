"""Worker pools, cores, threads and devices. Knows nothing of networks."""
