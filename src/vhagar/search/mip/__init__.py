"""The reference engine: the paper's twin big-M encoding in a MIP solver."""
