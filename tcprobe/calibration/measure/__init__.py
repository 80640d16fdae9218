"""Measure products through one framework: ``python FOLDER orders.json``, where FOLDER is this package.

Runs in the framework's own interpreter, where tcprobe need not be installed: it needs only the framework, the
standard library and Python 3.8. `BACKENDS` lists the frameworks; one is imported only when it is opened.
"""

from __future__ import annotations

from .frameworks import Jax, PyTorch, TensorFlow

BACKENDS = (TensorFlow, PyTorch, Jax)
"""The frameworks in the order in which they are tried."""
