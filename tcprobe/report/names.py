"""Shorten names of kernels, ops and layers for a terminal, so that they stay distinct."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tcprobe.report.formatting import beginning, ending, shorten
from tcprobe.visible import columns

DOTS: Final = ".."
BRACKETS: Final = re.compile(r"<[^<>]*>|\([^()]*\)")
"""The innermost template arguments or parameters of a C++ name."""
WORD: Final = re.compile(r"(?<=[/_.:\-\s<>(),])")
"""Where a word of a name begins."""
PART: Final = re.compile(r"(?<=[/:.\s<(,])")
"""Where a part of a path, or an argument, begins."""
LEAST_HEAD: Final = 6  # columns of the beginning that stay, where what tells names apart stands further on


def shortened(name: str, width: int) -> str:
    """Return a name in `width` columns: a kernel's arguments go first, then words of the middle."""
    if columns(name) <= width:
        return name
    plain = _without_arguments(name, width)
    if columns(plain) <= width:
        return plain
    whole = shorten(plain, width)
    return _at_words(plain, width) or whole


def distinct(names: Sequence[str], width: int) -> list[str]:
    """Return names in `width` columns; those that would look alike keep the part in which they differ."""
    found = [shortened(name, width) for name in names]
    alike = defaultdict[str, set[str]](set)
    for name, short in zip(names, found, strict=True):
        alike[short].add(name)
    told = {name: short for group in alike.values() if len(group) > 1 for name, short in _apart(group, width).items()}
    return [told.get(name, short) for name, short in zip(names, found, strict=True)]


def _without_arguments(name: str, width: int) -> str:
    """Return a C++ name with its arguments left out, the innermost first, as far as it is too long."""
    name = name.removeprefix("void ")
    while columns(name) > width:
        shorter = BRACKETS.sub("", name)
        if shorter == name:
            return name
        name = shorter
    return name


def _at_words(name: str, width: int) -> str | None:
    """Return both ends of a name cut where words begin; None where too little of it would be left."""
    tail_room = (width - len(DOTS)) // 2
    starts = [found.start() for found in WORD.finditer(name)]
    tails = [at for at in starts if columns(name[at:]) <= tail_room]
    if not tails:
        return None
    tail = name[tails[0] :]
    heads = [at for at in starts if columns(name[:at]) <= width - len(DOTS) - columns(tail)]
    head = name[: heads[-1]] if heads else ""
    made = f"{head.rstrip('/_.:- ')}{DOTS}{tail}"
    return made if head and 2 * columns(made) >= width else None


def _apart(names: set[str], width: int) -> dict[str, str]:
    """Return names of one look, each with a beginning, the part in which it differs and its end, as far as they fit."""
    ordered = sorted(names)
    first, last = _common(ordered), _common([name[::-1] for name in ordered])
    made = {}
    for name in ordered:
        end = max(first, len(name) - last)
        room = width - 2 * len(DOTS) - LEAST_HEAD
        begins = [found.start() for pattern in (PART, WORD) for found in reversed(list(pattern.finditer(name)))]
        begin = next((at for at in begins if at <= first and columns(name[at:end]) <= room), first)
        own = beginning(name[begin:end], room)
        head = beginning(name, min(begin, LEAST_HEAD))
        lead = f"{head}{DOTS}" if begin > len(head) else name[:begin]
        rest = width - columns(lead) - columns(own)
        follows = name[end:]
        tail = follows if columns(follows) <= rest else f"{DOTS}{ending(name, rest - len(DOTS))}" if rest > 2 else ""
        if tail == follows and begin > len(head):
            lead = f"{beginning(name, min(begin - 1, width - len(DOTS) - columns(own + tail)))}{DOTS}"
        made[name] = f"{lead}{own}{tail}"
    return made if len(set(made.values())) == len(made) else {name: shorten(name, width) for name in ordered}


def _common(ordered: Sequence[str]) -> int:
    """Return how many characters all names begin with."""
    first, last = min(ordered), max(ordered)
    return next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
