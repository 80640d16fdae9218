"""What the scripts of `tests/workload_styles` do, and whether tcprobe says so: shared by the test and the bench.

`truth` reads what a script says of itself, `found` what a run folder says of the run, `compare` holds the two together.
"""
