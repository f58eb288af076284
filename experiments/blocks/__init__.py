"""Tables, values and pictures of documents, rebuilt from rows."""
