"""The verbs as functions that read, analyse and write; the command line and Python programs call them."""
