"""Settings of a run: flags, recipes, the configuration, and construction of its parts."""
