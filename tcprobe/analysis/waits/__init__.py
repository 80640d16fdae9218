"""Find the long waits of a GPU and what the host did in them, and calls that are autotuning."""
