"""From findings to edits that change nothing else."""
