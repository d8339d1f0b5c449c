"""Worker pools, deadlines, cores, threads, devices, writing files. Knows nothing of networks."""
