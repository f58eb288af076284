"""Published figures as data: one row per run in `results/`."""
