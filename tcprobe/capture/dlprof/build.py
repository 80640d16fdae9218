"""Which `dlprof` is installed and which flags it has: read from its help, as every container differs.

Sources: `dlprof --help` of the PyTorch build 1.0 (simple, pytorch; --nsys_database), command lines of the
TensorFlow 1 and 2 containers 20.07 to 21.07 (--key_node), and DLProf 1.8's messages (--key_op, --database).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tcprobe.capture.program import ask, first_line, missing, paragraph, version_in, where, words
from tcprobe.errors import ToolError

DLPROF: Final = "dlprof"
MODES: Final = ("simple", "tensorflow1", "tensorflow2", "pytorch", "tensorrt")
# NVIDIA's DLProf wraps Nsight Systems and writes reports; Biren's BRDLProf, also called dlprof, does neither.
_OURS: Final = ("--nsys_opts", "--reports")


@dataclass(frozen=True, slots=True)
class Build:
    """One installed DLProf.

    Attributes:
        version: as ``--version`` prints it (``1.8.0``); None if it prints none.
        flags: its long options.
        modes: values of ``--mode``; empty if it has none or does not list them.
        formats: values of ``--formats``; empty if it has none or does not list them.
    """

    version: str | None
    flags: frozenset[str]
    modes: tuple[str, ...]
    formats: tuple[str, ...]

    def key_flag(self) -> str | None:
        """Return the option for the key node, whose name differs between builds."""
        return self.first("--key_node", "--key_op")

    def first(self, *names: str) -> str | None:
        """Return the first of these options that the build has; None if it has none."""
        return next((name for name in names if name in self.flags), None)


def ask_build(launcher: tuple[str, ...]) -> Build:
    """Ask the installed DLProf for its version and options.

    Raises:
        ToolError: there is none, it does not start, or it is another vendor's.
    """
    if reason := missing(DLPROF, launcher):
        raise ToolError(reason, "DLProf is part of NVIDIA's TensorFlow and PyTorch containers up to 21.12")
    said = ask(launcher, DLPROF, "--help")
    if not all(flag in said for flag in _OURS):
        lacks = ", ".join(flag for flag in _OURS if flag not in said)
        raise ToolError(
            f"{where(DLPROF, launcher)}: is not NVIDIA's DLProf: its help lacks {lacks}",
            f"another vendor's tool of that name comes first on PATH; it printed: {first_line(said)!r}",
        )
    return parse_help(said, version_in(ask(launcher, DLPROF, "--version")))


def parse_help(text: str, version: str | None) -> Build:
    """Return the build that a help text describes."""
    flags = frozenset(re.findall(r"--[a-z][a-z_]+", text))
    modes = words(paragraph(text, "--mode"))
    formats = words(paragraph(text, "--formats"))
    return Build(
        version,
        flags,
        tuple(mode for mode in MODES if mode in modes),
        tuple(one for one in ("csv", "json") if one in formats),
    )
