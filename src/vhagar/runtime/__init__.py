"""Worker pools, deadlines, cores, threads and devices. Knows nothing of networks."""
