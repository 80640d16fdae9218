"""The functions that a graph calls: which they are, what of them runs, and how often."""
