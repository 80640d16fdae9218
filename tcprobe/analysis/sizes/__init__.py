"""Badly sized layers of a run, and what mending them saves."""
