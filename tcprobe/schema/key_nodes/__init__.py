"""What a search for a key node finds."""
