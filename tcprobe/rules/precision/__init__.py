"""TC2xx: mistakes of precision."""
