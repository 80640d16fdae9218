"""Chains: kernels that multiply nothing and follow one another on a stream."""
