"""The user's files as text and syntax: names behind imports, calls, literals and their places. Nothing is evaluated."""
