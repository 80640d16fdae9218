"""Nsight Systems' recordings: the SQLite database that nsys exports, and its own reports through nsys."""
