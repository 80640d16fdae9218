"""What is made from the code: parts of docs/, and a file of the probe. `python -m tests.pages` writes them anew."""
