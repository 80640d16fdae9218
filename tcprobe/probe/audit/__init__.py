"""Audits models in the process that makes them: finds them, traces one training step of each, trains nothing."""
