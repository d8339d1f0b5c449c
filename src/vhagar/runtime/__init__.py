"""Worker pools, cores, threads and devices: what work runs on. Knows nothing of networks."""
