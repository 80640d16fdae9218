"""From a file to a model: traced by running it, or read from its source; and from findings to edits."""
