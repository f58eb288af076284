"""A study as a list of runs, a table and a drawing; its command, cost and launch."""
