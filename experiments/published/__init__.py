"""Published values, their remarks and their conditions."""
