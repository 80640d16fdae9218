"""What `tcprobe doctor` asks: frameworks, this machine, and each profiler by a trial."""
