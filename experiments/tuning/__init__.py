"""Search for a method's settings on validation classes: space, trials, outcome."""
