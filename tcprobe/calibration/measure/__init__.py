"""Measure products through one framework: ``python FOLDER orders.json``, where FOLDER is this package.

Runs in the framework's own interpreter, where tcprobe need not be installed: it needs only the framework, the
standard library and Python 3.8. `BACKENDS` lists the frameworks; one is imported only when it is opened.
"""

from __future__ import annotations

from . import with_jax, with_tensorflow, with_torch
from .base import Backend

BACKENDS: tuple[Backend, ...] = (with_tensorflow, with_torch, with_jax)
"""One module per framework, in the order in which they are tried."""
