"""What decides a training: flags, recipes, the configuration, and what is built from it."""
