"""What the ranges of the host (NVTX, annotations) tell of launches: their steps, ops and layers, and their time."""
