"""What `experiments.search` does: photos embedded, indexed, looked up, and their near-duplicates."""
