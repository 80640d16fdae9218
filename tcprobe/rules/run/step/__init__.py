"""The rules TC310 and later on a run: what its steps are made of, and whether they are steps of training."""
