"""Tables, values and pictures of documents, written anew from rows."""
