"""A report as static HTML pages: what is drawn of runs, and the pages that show it."""
