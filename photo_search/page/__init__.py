"""The web page of an index of photos, and its JSON interface."""
