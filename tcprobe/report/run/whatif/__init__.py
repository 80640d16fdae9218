"""What changes are predicted to give, as a table and in words."""
