"""Nsight Systems: its SQLite exports, read table by table into columns of numbers."""
