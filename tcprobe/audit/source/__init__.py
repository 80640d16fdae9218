"""Models as the source tells them: the user's program is read, nothing is executed."""
