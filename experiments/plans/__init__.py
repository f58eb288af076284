"""Studies: lists of runs with their tables, drawings, commands, costs and launches."""
