"""The verbs as functions: read, analyse, write. The command line calls them, and so can a program."""
