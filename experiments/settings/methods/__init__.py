"""The settings around a loss, each beside the constructor that it feeds."""
