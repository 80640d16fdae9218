"""Runs the workload in this process as Python itself would: its module, imports and output."""
