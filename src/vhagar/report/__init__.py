"""Show a study's results as figures, files and one page: store -> plain data -> figure -> page."""
