"""Functions that tell the sizes of a tensor."""

from __future__ import annotations

from tcprobe.audit.source.arrays.call import ArrayCall
from tcprobe.audit.source.values.kinds import SourceValue, known_constant
from tcprobe.audit.source.values.parts import dimensions
from tcprobe.source.values import Doubt


def shape(call: ArrayCall) -> SourceValue | None:
    """Return the sizes of a tensor as a list."""
    return dimensions(call.x, call.node) if call.x is not None else None


def rank(call: ArrayCall) -> SourceValue | None:
    """Return the number of a tensor's dimensions."""
    if call.x is None or call.x.shape is None:
        return None
    return known_constant(len(call.x.shape), call.node).doubted(Doubt("is the rank of a tensor", hidden=True))
