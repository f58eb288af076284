"""Parts of a run by name; their constructors make the flags."""
