"""What a value of the user's program can be, and what follows from it alone."""
