"""Write a document to a terminal, a file or a folder; a file appears complete or not at all."""
