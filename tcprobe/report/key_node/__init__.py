"""What a search for a key node found, as a document."""
