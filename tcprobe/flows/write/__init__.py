"""Write what was asked for: to a terminal, a file or a folder; a file appears whole or not at all."""
