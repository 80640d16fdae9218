"""Whose measurements a predicted time rests on: `Stack` and `Provenance`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

StackKind = Literal["serving", "framework", "benchmark", "unknown"]
Borrowed = Literal["gpu", "dtype", "stack", "convolution", "alignment"]
COLUMNS: Final = ("constants_gpu", "constants_stack", "constants_borrowed")


class Stack(Struct, frozen=True):
    """The software that ran and timed the measured products."""

    # a serving stack (its kernels alone), a framework (each call with its launch), a benchmark of the library
    kind: StackKind = "unknown"
    name: str = ""  # such as ``vLLM`` or ``PyTorch 2.13.0``; empty where unknown


UNKNOWN_STACK: Final = Stack()


class Provenance(Struct, frozen=True):
    """Whose constants a predicted time rests on."""

    gpu: str  # id of the GPU that the time is predicted for
    measured_on: str  # id of the GPU whose rates they are
    stack: Stack = UNKNOWN_STACK  # what timed these
    # dtype family of these rates, if it stands in for another; None where it is the product's own
    dtype: str | None = None
    # id of the GPU whose framework's launch and efficiency were put on these rates; None if none were
    framework_of: str | None = None
    # id of the GPU whose convolutions stand in; None where they are its own, or there are none
    convolutions_of: str | None = None
    unaligned_of: str | None = None  # the same for the slowdown of unaligned sizes
    widened: float = 1.0  # factor on the slow end of the range for what is borrowed; 1 where nothing is

    @property
    def borrowed(self) -> Mapping[Borrowed, str]:
        """Return in which respects the constants are not the product's own, and whose they are; empty if all are."""
        found: dict[Borrowed, str | None] = {
            "gpu": self.measured_on if self.measured_on != self.gpu else None,
            "dtype": self.dtype,
            "stack": self.framework_of,
            "convolution": self.convolutions_of,
            "alignment": self.unaligned_of,
        }
        return {kind: whose for kind, whose in found.items() if whose is not None}

    def columns(self) -> dict[str, str | None]:
        """Return it as columns of a table: the GPU measured, what timed it, and all that is borrowed."""
        borrowed = "; ".join(f"{kind}: {whose}" for kind, whose in self.borrowed.items())
        return dict(zip(COLUMNS, (self.measured_on, self.stack.name or None, borrowed or None), strict=True))

    @classmethod
    def of(cls, row: Mapping[str, Any], gpu: str) -> Provenance | None:
        """Return what a row of a table says of figures predicted for a GPU; None where it says nothing."""
        owner, stack, borrowed = (row[column] for column in COLUMNS)
        if owner is None:
            return None
        parts = {kind: whose for kind, _, whose in (part.partition(": ") for part in (borrowed or "").split("; "))}
        return cls(
            gpu,
            owner,
            Stack(name=stack or ""),
            dtype=parts.get("dtype"),
            framework_of=parts.get("stack"),
            convolutions_of=parts.get("convolution"),
            unaligned_of=parts.get("alignment"),
        )

    def beside(self, other: Provenance) -> Provenance:
        """Return this one with what only the other borrows: that of a figure that rests on both."""
        return replace(
            self,
            dtype=self.dtype or other.dtype,
            framework_of=self.framework_of or other.framework_of,
            convolutions_of=self.convolutions_of or other.convolutions_of,
            unaligned_of=self.unaligned_of or other.unaligned_of,
            widened=max(self.widened, other.widened),
        )


def merged(found: Iterable[Provenance]) -> tuple[Provenance, ...]:
    """Return each GPU and stack once, with all that is borrowed beside it, in the order given."""
    by_owner: dict[tuple[str, Stack], Provenance] = {}
    for one in found:
        key = one.measured_on, one.stack
        by_owner[key] = by_owner[key].beside(one) if key in by_owner else one
    return tuple(by_owner.values())
