"""Jobs of many ranks: run under a launcher, each in a folder of its own, and read as one report."""
