"""The user's source as syntax: names behind imports, constants, calls and their places. Nothing is executed."""
