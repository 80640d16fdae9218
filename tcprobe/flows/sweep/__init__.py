"""`sweep` as functions: plan the runs, run them, read what they gave."""
