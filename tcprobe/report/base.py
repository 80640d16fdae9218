"""What a reporter is: a module of this package, listed in `tcprobe.report.REPORTERS`, and what it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from tcprobe.schema.profile import Profile


@dataclass(frozen=True, slots=True)
class ReportSpec:
    """What a person asked to see.

    Attributes:
        top: rows of each table; None shows all.
        by: the tables to show (kernel, op, layer, iteration, device); empty shows the default screen.
        width: columns of the terminal; None where the output is no terminal, so nothing is cut.
        color: whether escape codes may be written.
    """

    top: int | None = 10
    by: tuple[str, ...] = ()
    width: int | None = None
    color: bool = False


@dataclass(frozen=True, slots=True)
class Reporter:
    """One output format; its module has a function ``render(profile, spec, out)`` and is loaded when it is called.

    Attributes:
        FORMAT: its name on the command line.
        SUFFIXES: file name endings that choose it (``.json``).
        module: of this package.
    """

    FORMAT: str
    SUFFIXES: tuple[str, ...]
    module: str

    def render(self, profile: Profile, spec: ReportSpec, out: TextIO) -> None:
        """Write the analysed profile to `out`; the same profile and spec give the same bytes."""
        import_module(f"tcprobe.report.{self.module}").render(profile, spec, out)
