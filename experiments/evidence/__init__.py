"""Published figures as data: one row a training in `results/`."""
