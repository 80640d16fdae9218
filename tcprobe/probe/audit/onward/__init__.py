"""Goes on after a training step is known: what a script may still do then, and what it may not."""
