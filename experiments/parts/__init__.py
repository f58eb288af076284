"""Parts of a run by name: losses, poolings, networks, data sets. Their constructors make the flags."""
