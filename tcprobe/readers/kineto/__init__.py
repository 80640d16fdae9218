"""Traces of PyTorch's profiler: the Chrome-trace JSON that Kineto writes."""
