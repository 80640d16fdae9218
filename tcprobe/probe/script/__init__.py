"""The workload's own process as Python itself would run it: its module, imports and output."""
