"""Say how well a training run uses the Tensor Cores, why not better, and what to change."""

from __future__ import annotations

__version__ = "0.1.0"
