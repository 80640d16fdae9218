"""Models as the probe traced them: the user's file is run in a process of its own."""
