"""Which `dlprof` is installed and which flags it has: read from its help, as every container differs.

Sources: `dlprof --help` of the PyTorch build 1.0 (simple, pytorch; --nsys_database), command lines of the
TensorFlow 1 and 2 containers 20.07 to 21.07 (--key_node), and DLProf 1.8's messages (--key_op, --database).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Final

from tcprobe.errors import ToolError

DLPROF: Final = "dlprof"
ANSWER_SECONDS: Final = 300  # a container image may have to be unpacked first
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


def missing(launcher: tuple[str, ...]) -> str | None:
    """Return why no `dlprof` can be started, else None; behind a launcher only a start can tell."""
    if launcher or shutil.which(DLPROF):
        return None
    return f"there is no {DLPROF} on PATH"


def ask_build(launcher: tuple[str, ...]) -> Build:
    """Ask the installed DLProf for its version and options.

    Raises:
        ToolError: there is none, it does not start, or it is another vendor's.
    """
    if reason := missing(launcher):
        raise ToolError(reason, "DLProf is part of NVIDIA's TensorFlow and PyTorch containers up to 21.12")
    said = _say(launcher, "--help")
    if not all(flag in said for flag in _OURS):
        where = " ".join([*launcher, DLPROF]) if launcher else shutil.which(DLPROF)
        raise ToolError(
            f"{where}: is not NVIDIA's DLProf: its help lacks {', '.join(f for f in _OURS if f not in said)}",
            f"another vendor's tool of that name comes first on PATH; it printed: {_first_line(said)!r}",
        )
    version = re.search(r"(?<!\d)(\d++\.\d+(?:\.\d+)?)", _say(launcher, "--version"))
    return parse_help(said, version[1] if version else None)


def parse_help(text: str, version: str | None) -> Build:
    """Return the build that a help text describes."""
    flags = frozenset(re.findall(r"--[a-z][a-z_]+", text))
    modes = _words(_paragraph(text, "--mode"))
    formats = _words(_paragraph(text, "--formats"))
    return Build(
        version,
        flags,
        tuple(mode for mode in MODES if mode in modes),
        tuple(one for one in ("csv", "json") if one in formats),
    )


def _paragraph(text: str, flag: str) -> str:
    """Return the lines that describe an option, up to the next option."""
    found = re.search(rf"^.*{flag}\b.*(?:\n(?!\s*-{{1,2}}[A-Za-z]).*)*", text, re.MULTILINE)
    return found[0] if found else ""


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+\d?", text.lower()))


def _first_line(text: str) -> str:
    return next((line.strip()[:80] for line in text.splitlines() if line.strip()), "")


def _say(launcher: tuple[str, ...], flag: str) -> str:
    """Return what `dlprof FLAG` prints; in some builds its exit code means nothing."""
    command = [*launcher, DLPROF, flag]
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_SECONDS, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise ToolError(f"{shown}: cannot be started: {error.strerror}", "check --launcher") from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{shown}: no answer within {ANSWER_SECONDS} s", "check --launcher") from error
    said = f"{done.stdout}\n{done.stderr}"
    if done.returncode != 0 and not done.stdout.strip():
        raise ToolError(
            f"{shown}: failed: {_first_line(done.stderr) or f'exit code {done.returncode}'}", _hint(launcher)
        )
    return said


def _hint(launcher: tuple[str, ...]) -> str:
    return "the launcher must lead to a place that has dlprof" if launcher else "see what it prints when run by hand"
