"""Settings of a run: flags, recipes, the configuration, and its parts as they are built."""
