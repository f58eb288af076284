"""Reports as static HTML pages: drawings of runs and their pages."""
