"""The TC3xx rules: what to do about a run that was profiled."""
