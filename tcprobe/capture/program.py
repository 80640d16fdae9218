"""A profiler on PATH, or behind a launcher: its version, its options, and further words of the user's for it.

Every container has another build, so what it has is read from its help.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from tcprobe.errors import ToolError, UsageError

ANSWER_SECONDS: Final = 300  # a container image may have to be unpacked first


class Profiler(Struct, frozen=True):
    """What tcprobe must know of a profiler's command line."""

    program: str  # its name on PATH
    title: str  # what messages call the command that takes its options
    help: tuple[str, ...]  # the words that make it list its options
    option: str  # regular expression for a long option in that list
    install: str  # where it comes from
    given_with: str  # the option of tcprobe that passes on words of the user's
    example: str  # such a word, for messages
    ours: Mapping[str, str]  # its options that tcprobe alone sets, each with the reason
    short: Mapping[str, str] = field(default_factory=dict)  # the long names of short ones, for builds that list none


class Build(Struct, frozen=True):
    """One installed profiler."""

    version: str | None  # as ``--version`` prints it (``2022.4.2.1``); None if it prints none
    text: str  # its help
    flags: frozenset[str]  # its long options
    short: Mapping[str, str]  # the long names of its short ones

    def values(self, flag: str, *known: str) -> tuple[str, ...]:
        """Return those of some values that an option takes; none if it has none or does not list them."""
        described = set(re.findall(r"[a-z][a-z0-9]*+(?:-[a-z0-9]++)*+", paragraph(self.text, flag).lower()))
        return tuple(value for value in known if value in described)


class Further(NamedTuple):
    """Words of the user's for a profiler."""

    words: tuple[str, ...]  # as given
    flags: frozenset[str]  # the long names of the options in them


def missing(profiler: Profiler, launcher: tuple[str, ...]) -> str | None:
    """Return why a profiler cannot be started, else None; behind a launcher only a start can tell."""
    if launcher or shutil.which(profiler.program):
        return None
    return f"there is no {profiler.program} on PATH"


def ask_build(profiler: Profiler, launcher: tuple[str, ...]) -> Build:
    """Ask the installed profiler for its version and options.

    Raises:
        ToolError: there is none, or it does not start.
    """
    if reason := missing(profiler, launcher):
        raise ToolError(reason, profiler.install)
    text = _ask(launcher, profiler.program, *profiler.help)
    return parse_help(profiler, text, _ask(launcher, profiler.program, "--version"))


def parse_help(profiler: Profiler, text: str, version: str = "") -> Build:
    """Return the build that a help text, and what ``--version`` prints, describe."""
    number = re.search(r"(?<![\d.])(\d++(?:\.\d++)++)", version)
    short = dict(re.findall(r"^\s*(-\w),\s*(--[a-z][a-z-]+)", text, re.MULTILINE))
    flags = frozenset(re.findall(profiler.option, text, re.MULTILINE))
    return Build(number and number[1], text, flags, {**short, **profiler.short})


def further(words: Sequence[str], profiler: Profiler, build: Build) -> Further:
    """Return the user's words, and which options they set.

    Raises:
        UsageError: a word stands where an option should, or an option is tcprobe's to set.
    """
    found = frozenset(_flags(words, profiler, build))
    if refused := sorted(found & set(profiler.ours)):
        raise UsageError(
            f"{profiler.given_with}: {refused[0]} is tcprobe's to set: {profiler.ours[refused[0]]}", "leave it out"
        )
    return Further(tuple(words), found)


def _flags(words: Sequence[str], profiler: Profiler, build: Build) -> Iterator[str]:
    """Yield the options: ``--x=v`` is one word, ``--x v`` are two."""
    value_may_follow = False
    for word in words:
        if word.startswith("-") and len(word) > 1:
            name, equals, _ = word.partition("=")
            value_may_follow = not equals
            yield build.short.get(name, name)
        elif value_may_follow:
            value_may_follow = False
        else:
            raise UsageError(
                f"{profiler.given_with}: {word!r} is no option of {profiler.title} and the value of none",
                f"as in {profiler.example}",
            )


def _ask(launcher: tuple[str, ...], *command: str) -> str:
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
    if done.returncode != 0 and (refused := refusal(done.stderr)) is not None:
        raise refused
    if done.returncode != 0 and not done.stdout.strip():
        raise ToolError(
            f"{shown}: failed: {first_line(done.stderr) or f'exit code {done.returncode}'}",
            f"the launcher must lead to a place that has {command[0]}" if launcher else "see what it prints by hand",
        )
    return f"{done.stdout}\n{done.stderr}"


def where(profiler: Profiler, launcher: tuple[str, ...]) -> str:
    """Return how messages name the program that is started."""
    program = profiler.program
    return " ".join([*launcher, program]) if launcher else shutil.which(program) or program


def paragraph(text: str, flag: str) -> str:
    """Return the lines of a help text that describe an option, up to the next option."""
    found = re.search(rf"^\s*(?:-\w,\s*)?{flag}(?![\w-]).*(?:\n(?!\s*-{{1,2}}[A-Za-z]).*)*", text, re.MULTILINE)
    return found[0] if found else ""


def first_line(text: str) -> str:
    """Return the first line that is not empty, cut."""
    return next((line.strip()[:80] for line in text.splitlines() if line.strip()), "")


def refusal(text: str) -> ToolError | None:
    """Return why a launcher of MPI starts nothing, where it says so; None where it does not."""
    if "allow-run-as-root" in text:
        hint = "add --allow-run-as-root to --launcher, where root is nobody's account (in a container)"
        return ToolError("Open MPI does not start a job as root", hint)
    if slots := re.search(r"not enough slots available[^\n]*\n?[^\n]*?(\d+)\s+slots", text):
        return ToolError(
            f"Open MPI has no room for {slots[1]} ranks here", "add --oversubscribe to --launcher, or fewer ranks"
        )
    return None
