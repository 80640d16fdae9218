"""Say how long a step takes, how long the GPU waits in it and where, and what the host did meanwhile."""
