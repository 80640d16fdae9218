"""The command line: one verb per file; a verb parses, calls a flow and prints."""
