"""The headline figures of a run."""
