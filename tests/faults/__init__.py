"""Faults of a run: each is a row of a table, which the tests and docs/reliability.md are made from."""
