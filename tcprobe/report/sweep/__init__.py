"""A sweep as a document: its table, its verdict in sentences, the curves."""
