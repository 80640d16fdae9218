"""Find an op or range that fires once in each step: a key node for DLProf, or the ranges that are steps."""
