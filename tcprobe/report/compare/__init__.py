"""The documents of a comparison: several runs side by side, one run against another, what became of conditions."""
