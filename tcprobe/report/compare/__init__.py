"""The documents of a comparison of runs."""
