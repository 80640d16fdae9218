"""Fuzzing: inputs changed by chance, for everything that reads a file; ``python -m tests.fuzz --help``."""
