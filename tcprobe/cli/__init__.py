"""The command line: one verb per file; each parses its options, calls a flow and prints."""
