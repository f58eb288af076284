"""Tables, values and pictures of this repository's documents, rebuilt from rows."""
