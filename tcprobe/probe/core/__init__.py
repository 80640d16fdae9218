"""What the probe does whatever the framework: steps, window, journal, ranges, logged figures, lines of the user's.

`framework.py` says what it asks of one.
"""
