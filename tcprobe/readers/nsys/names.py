"""What the name of a range tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

_NUMBERS: Final = re.compile(r", (?:op_id|seq|sizes) = .*", re.DOTALL)
_SEQUENCE: Final = re.compile(r", seq = (\d{1,15})")
_SIZES: Final = re.compile(r", sizes = (\[.*\])", re.DOTALL)
_STEP: Final = re.compile(r"(?:ProfilerStep#|step[ _#:]*)(\d{1,15})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Told:
    """What one distinct name tells."""

    name: str
    kind: Literal["step", "phase", "layer", "op"] | None = None
    step: int | None = None
    op_type: str | None = None
    dtype: str | None = None
    input_shapes: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """A name without the numbers that make each one different."""

    text: str
    sequence: int | None = None
    sizes: str | None = None


def told(domain: str | None, text: str) -> Told:
    """Return what a name tells; `domain` is that of NVTX, None for the default one."""
    step = _STEP.fullmatch(text) if domain is None else None
    if step:
        return Told(text, "step", int(step[1]))
    return Told(text, "op", op_type=text) if text.startswith("aten::") else Told(text)


def cut(text: str) -> Cut:
    """Cut PyTorch's numbers off a name."""
    sequence, sizes = _SEQUENCE.search(text), _SIZES.search(text)
    return Cut(_NUMBERS.sub("", text), int(sequence[1]) if sequence else None, sizes[1] if sizes else None)
