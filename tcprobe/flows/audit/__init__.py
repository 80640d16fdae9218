"""`audit-shapes` as functions: files, options, models, findings, fixes."""
