"""`tcprobe calibrate`: what to measure on a GPU, how it is started, and what its constants are worth."""
