"""Search for a method's settings on validation classes: the space, the trials, what came out."""
