"""Whose measurements a predicted time rests on: `Stack` and `Provenance`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

StackKind = Literal["serving", "framework", "benchmark", "unknown"]
Borrowed = Literal["gpu", "dtype", "stack", "convolution", "alignment"]
STACK_KINDS: Final[tuple[StackKind, ...]] = ("serving", "framework", "benchmark", "unknown")


@dataclass(frozen=True, slots=True)
class Stack:
    """The software that ran and timed the measured products.

    Attributes:
        kind: a serving stack (its kernels alone), a framework (each call with its launch), a benchmark of the library.
        name: such as ``vLLM`` or ``PyTorch 2.13.0``; empty where unknown.
    """

    kind: StackKind = "unknown"
    name: str = ""


UNKNOWN_STACK: Final = Stack()


@dataclass(frozen=True, slots=True)
class Provenance:
    """Whose constants a predicted time rests on.

    Attributes:
        gpu: id of the GPU that the time is predicted for.
        measured_on: id of the GPU whose rates they are.
        stack: what timed these.
        dtype: dtype family of these rates, if it stands in for another; None where it is the product's own.
        framework_of: id of the GPU whose framework's launch and efficiency were put on these rates; None if none were.
        convolutions_of: id of the GPU whose convolutions stand in; None where they are its own, or there are none.
        unaligned_of: the same for the slowdown of unaligned sizes.
        widened: factor on the slow end of the range for what is borrowed; 1 where nothing is.
    """

    gpu: str
    measured_on: str
    stack: Stack = UNKNOWN_STACK
    dtype: str | None = None
    framework_of: str | None = None
    convolutions_of: str | None = None
    unaligned_of: str | None = None
    widened: float = 1.0

    @property
    def borrowed(self) -> tuple[Borrowed, ...]:
        """Return in which respects the constants are not this GPU's own; empty where they all are."""
        found: dict[Borrowed, bool] = {
            "gpu": self.measured_on != self.gpu,
            "dtype": self.dtype is not None,
            "stack": self.framework_of is not None,
            "convolution": self.convolutions_of is not None,
            "alignment": self.unaligned_of is not None,
        }
        return tuple(kind for kind, borrowed in found.items() if borrowed)

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
