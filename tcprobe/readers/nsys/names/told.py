"""`Told`: what the name of a range tells of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

RangeKind: TypeAlias = Literal["step", "phase", "layer", "op"]
LONGEST: Final = 1 << 16
"""Characters of a text that is parsed; what NVTX and XLA write is cut off below (65,330, says XLA's annotation.cc)."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a range marks, as far as its domain and text say so.

    Attributes:
        name: as `ranges.name` has it: of an op or layer its path, or the part of it below the range around; of a
            phase forward, backward, optimizer, validation or input.
        kind: None where the source does not say what it marks.
        step: number of a step.
        op_type: type of an op.
        dtype: of its inputs; several are joined by +.
        input_shapes: of its inputs, as a JSON list with null for one that is not known.
    """

    name: str
    kind: RangeKind | None = None
    step: int | None = None
    op_type: str | None = None
    dtype: str | None = None
    input_shapes: str | None = None


def joined(dtypes: Iterable[str | None]) -> str | None:
    """Return the dtype of several inputs: each once, joined by +; None where none is known."""
    return "+".join(dict.fromkeys(dtype for dtype in dtypes if dtype)) or None
