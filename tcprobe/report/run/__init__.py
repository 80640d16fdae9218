"""Reports of a recorded run: the answer, what first, the tables."""
