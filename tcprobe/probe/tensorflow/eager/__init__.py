"""Records what eager training runs: products as they execute, and which part of a step each belongs to."""
