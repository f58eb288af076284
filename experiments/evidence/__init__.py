"""Published figures as data: one row a training in `results/`, and the documents that are made of the rows."""
