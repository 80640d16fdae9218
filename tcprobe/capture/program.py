"""Ask a profiler on PATH, or behind a launcher, for its version and its options: every container has other ones."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Final

from tcprobe.errors import ToolError

ANSWER_SECONDS: Final = 300  # a container image may have to be unpacked first


def missing(program: str, launcher: tuple[str, ...]) -> str | None:
    """Return why a program cannot be started, else None; behind a launcher only a start can tell."""
    if launcher or shutil.which(program):
        return None
    return f"there is no {program} on PATH"


def ask(launcher: tuple[str, ...], *command: str) -> str:
    """Return all that a command prints; in some builds its exit code means nothing.

    Raises:
        ToolError: it cannot be started, does not answer, or fails without a word on standard output.
    """
    words = [*launcher, *command]
    shown = " ".join(words)
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=ANSWER_SECONDS, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise ToolError(f"{shown}: cannot be started: {error.strerror}", "check --launcher") from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{shown}: no answer within {ANSWER_SECONDS} s", "check --launcher") from error
    if done.returncode != 0 and not done.stdout.strip():
        raise ToolError(
            f"{shown}: failed: {first_line(done.stderr) or f'exit code {done.returncode}'}",
            f"the launcher must lead to a place that has {command[0]}" if launcher else "see what it prints by hand",
        )
    return f"{done.stdout}\n{done.stderr}"


def where(program: str, launcher: tuple[str, ...]) -> str:
    """Return how messages name the program that is started."""
    return " ".join([*launcher, program]) if launcher else shutil.which(program) or program


def version_in(text: str) -> str | None:
    """Return the first number with dots in what ``--version`` prints; None if there is none."""
    found = re.search(r"(?<![\d.])(\d++(?:\.\d++)++)", text)
    return found[1] if found else None


def paragraph(text: str, flag: str) -> str:
    """Return the lines of a help text that describe an option, up to the next option."""
    found = re.search(rf"^\s*(?:-\w,\s*)?{flag}(?![\w-]).*(?:\n(?!\s*-{{1,2}}[A-Za-z]).*)*", text, re.MULTILINE)
    return found[0] if found else ""


def words(text: str) -> set[str]:
    """Return the words in lower case, among which are the values that an option takes."""
    return set(re.findall(r"[a-z][a-z0-9]*+(?:-[a-z0-9]++)*+", text.lower()))


def first_line(text: str) -> str:
    """Return the first line that is not empty, cut."""
    return next((line.strip()[:80] for line in text.splitlines() if line.strip()), "")
