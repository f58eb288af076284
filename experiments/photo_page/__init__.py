"""The local web page of `experiments.serve`: uploads checked, looked up in an index, answered as JSON."""
