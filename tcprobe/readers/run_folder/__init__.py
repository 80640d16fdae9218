"""The run folder of `tcprobe profile`."""
