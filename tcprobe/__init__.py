"""Say how well a training run uses the Tensor Cores, why not better, and what to change."""

from __future__ import annotations

from tcprobe.marks import step

__all__ = ["__version__", "step"]

__version__ = "0.1.0"
