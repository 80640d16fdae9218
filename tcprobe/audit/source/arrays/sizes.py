"""Functions that tell the sizes of a tensor."""

from __future__ import annotations

from tcprobe.audit.source.arrays.call import ArrayCall
from tcprobe.audit.source.kinds import SourceValue
from tcprobe.audit.source.values import dimension, dimensions


def shape(call: ArrayCall) -> SourceValue | None:
    """Return the sizes of a tensor as a list."""
    return dimensions(call.x) if call.x is not None else None


def rank(call: ArrayCall) -> SourceValue | None:
    """Return the number of a tensor's dimensions."""
    if call.x is None or call.x.shape is None:
        return None
    return dimension(len(call.x.shape))
