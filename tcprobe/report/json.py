"""Renderer: a document's raw values as JSON; NA is null, and so is a NaN or infinity that nobody logged (`spelt`)."""

from __future__ import annotations

import json
import math
from typing import Any, TextIO

from tcprobe.report import RenderSpec
from tcprobe.report.document import Document


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write the document's data; figures keep their full precision."""
    json.dump(_finite(document.data()), out, indent=2, allow_nan=False)
    out.write("\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
