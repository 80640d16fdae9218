"""One report of a job's ranks: each is reduced to its tables and these are joined, two at a time."""
