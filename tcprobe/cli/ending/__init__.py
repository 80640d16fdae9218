"""How a command ends: a failure in two lines, a bug with its log, conditions with their exit code."""
