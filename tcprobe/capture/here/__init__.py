"""Record steps in this process: when the profiler runs, what the steps multiply, and the run folder of both."""
