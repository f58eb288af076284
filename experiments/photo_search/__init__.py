"""The actions of `experiments.search`: photos embedded, indexed, looked up, and their near-duplicates."""
