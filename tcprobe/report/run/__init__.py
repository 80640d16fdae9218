"""Build the document of a profiled run: the answer, what to do first, the tables."""
