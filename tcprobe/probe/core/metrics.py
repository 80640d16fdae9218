"""Finds figures in what a script logs: losses, step time, throughput, and what the user's own patterns name."""

from __future__ import annotations

import math
import re
from typing import Iterator, List, NamedTuple, Pattern

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)\b"
RATE = r"(?:images|img|samples|examples|tokens|steps)(?:/s(?:ec)?|_per_sec(?:ond)?)"
# A name is one or two words that end in one of these, before ':' or '=': "G Loss: 0.699", "val_loss=0.3".
NAMED = re.compile(
    r"(?P<name>(?:\b[A-Za-z][A-Za-z0-9]{0,15}[ _])?\b[A-Za-z_0-9]*?"
    r"(?:loss|acc|accuracy|step[_ ]time|throughput|[cg]pu_batch|" + RATE + r"))"
    r"\s*[:=]\s*(?P<value>" + NUMBER + r")(?:\s*(?P<unit>(?:[A-Za-z]+/s(?:ec)?|ms|us|s)\b))?",
    re.IGNORECASE,
)
HINT = re.compile(r"loss|acc|step.time|throughput|pu_batch|/s|_per_sec", re.IGNORECASE)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x08\x00]")
UNITS = {"step_time": "s"}
LONGEST_PRINTED = 4096


class PrintedFigure(NamedTuple):
    """One figure in a line; the unit is empty where the line gives none."""

    name: str
    value: float
    unit: str


class Patterns:
    """The patterns of tcprobe and those of the user.

    Args:
        user: regular expressions. Each named group is a figure of that name; with groups ``name`` and ``value``
            (and ``unit``) the line names it; a single unnamed group is called ``metric``.

    Raises:
        re.error: a pattern is no regular expression.
    """

    def __init__(self, user: List[str]) -> None:
        self._user = [re.compile(text) for text in user]

    def find(self, line: str) -> Iterator[PrintedFigure]:
        """Yield the figures of one line."""
        if len(line) > LONGEST_PRINTED:
            return
        line = ESCAPE.sub("", line)
        for pattern in self._user:
            for match in pattern.finditer(line):
                yield from _own(pattern, match)
        if HINT.search(line):
            for match in NAMED.finditer(line):
                yield from _figure(match.group("name"), match.group("value"), match.group("unit"))


def _own(pattern: Pattern[str], match: "re.Match[str]") -> Iterator[PrintedFigure]:
    groups = match.groupdict()
    if groups.get("name") and groups.get("value"):
        pairs = {groups["name"]: groups["value"]}
    elif groups:
        pairs = {name: value for name, value in groups.items() if name != "unit"}
    else:
        pairs = {"metric": match.group(1 if pattern.groups else 0)}
    for name, value in pairs.items():
        if value is not None and re.fullmatch(NUMBER, value, re.IGNORECASE):
            yield from _figure(name, value, groups.get("unit"))


def _figure(name: str, text: str, unit: "str | None") -> Iterator[PrintedFigure]:
    """Yield a figure; digits past a double's are none, NaN and infinity are, where the script wrote them."""
    name, value = re.sub(r"[^a-z0-9/]+", "_", name.lower()).strip("_"), float(text)
    if math.isfinite(value) or text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        yield PrintedFigure(name, value, unit or UNITS.get(name, ""))
