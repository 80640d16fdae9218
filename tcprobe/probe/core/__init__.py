"""What the probe needs whatever the framework: steps, window, journal, ranges, logs, the script and its lines.

Nothing here knows TensorFlow; what marks a step or counts one is handed in.
"""
