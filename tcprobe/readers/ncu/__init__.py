"""Nsight Compute's CSV: one row for each profiled launch (page raw) or for each of its metrics (page details)."""
