"""Measures products through one framework: ``python FOLDER orders.json``, FOLDER being this package under any name.

Runs in the framework's own interpreter, which need not have tcprobe installed: standard library and Python 3.8 only,
besides the framework. `BACKENDS` lists what it can measure through; a framework is imported when it is opened.
"""

from __future__ import annotations

from . import with_jax, with_tensorflow, with_torch
from .base import Backend

BACKENDS: tuple[Backend, ...] = (with_tensorflow, with_torch, with_jax)
"""One file per framework, in the order in which they are looked for."""
