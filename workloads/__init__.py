"""Plain training scripts that tcprobe can profile by name; each runs on its own as well."""
