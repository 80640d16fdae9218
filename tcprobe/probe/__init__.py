"""Watches a workload in its own process: steps, profile window, NVTX ranges, logged figures, layers, products.

Standard library only, Python 3.8 or later. The folder is copied into the run folder as a package of its own
and run by path, so its modules import one another relatively.
"""
