"""The TC2xx rules: mistakes in the use of precision."""
