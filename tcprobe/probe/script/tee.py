"""Listens to what the script prints, inside the process: the streams stay the script's own.

Only the `write` of a stream object is shadowed, by one that writes first and then remembers the text; the file
descriptor, `isatty()` and the object itself are untouched. Text is cut into lines and searched by the journal's
thread, not by the thread that prints.

What is printed faster than is worth searching goes by: the streams then have their own `write` again until the thread
has caught up. A line of which a part went by is not searched, as a number cut short is another number.

What is found are figures: losses, step time, throughput, and what the user's own patterns name.
"""

from __future__ import annotations

import collections
import math
import re
import sys
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Pattern, Set, Tuple

from ..core.gaps import Gaps
from ..core.journal import INTERVAL_SECONDS

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


# Characters that are searched between two calls of `drain`, which come once an interval of the journal: of lines with
# figures, that takes some 20 ms of CPU time. It is a thousand lines, and no loop that trains logs as many.
BUDGET = 100_000
# What a write counts besides its text: to note it takes as long as to search so many characters.
A_WRITE = 20
LONGEST_UNFINISHED = 8192


class Tee:
    """Finds figures in the output.

    Args:
        patterns: what to look for.
        clock: nanoseconds since the start of the workload.
        step: returns the number of the step at a time of that clock.
        found: called with step, name, value and unit of each figure, in the thread that calls `drain`.
        gaps: takes what fails.
    """

    def __init__(
        self,
        patterns: Patterns,
        clock: Callable[[], int],
        step: Callable[[int], int],
        found: Callable[[int, str, float, str], None],
        gaps: Gaps,
    ) -> None:
        self._patterns = patterns
        self._clock = clock
        self._step = step
        self._found = found
        self._gaps = gaps
        self._waiting: Deque[Tuple[int, int, Optional[str]]] = collections.deque()  # None: something went by
        self._unfinished: Dict[int, str] = {}
        self._torn: Set[int] = set()  # streams whose next line has lost its beginning
        self._streams: List[Tuple[Any, Callable[[str], Any]]] = []
        self._on = True
        self._left = [BUDGET]
        self._deaf_since: Optional[int] = None
        self._deaf_ns = 0

    def listen(self, stream: Any) -> None:
        """Shadow `write` of a text stream."""
        if stream is None or "write" in getattr(stream, "__dict__", {"write": None}):
            return
        write, waiting, clock, number = stream.write, self._waiting, self._clock, len(self._streams)
        left, deafen = self._left, self._deafen

        def tee(text: str) -> Any:
            result = write(text)
            if left[0] > 0 and isinstance(text, str):
                left[0] -= len(text) + A_WRITE
                if left[0] > 0:
                    waiting.append((number, clock(), text))
                else:
                    deafen()
            return result

        self._streams.append((stream, tee))
        if self._deaf_since is None:
            stream.write = tee
        else:
            self._torn.add(number)

    def listen_to_files(self, logging: Any) -> None:
        """Hear log files too: every FileHandler's stream from now on."""
        handler, listen, gaps = logging.FileHandler, self.listen, self._gaps
        opened = handler._open

        def _open(self: Any) -> Any:
            stream = opened(self)
            gaps.run("log files", lambda: listen(stream))
            return stream

        handler._open = _open

    def start(self) -> None:
        """Listen to standard output and standard error."""
        self._gaps.run("standard output", lambda: self.listen(sys.stdout))
        self._gaps.run("standard error", lambda: self.listen(sys.stderr))

    def stop(self) -> None:
        """Give the streams their own `write` back."""
        self._on = False
        self._release()

    def drain(self) -> None:
        """Search what has been printed since the last call."""
        while self._waiting:
            number, time, text = self._waiting.popleft()
            if text is None:
                self._unfinished.pop(number, None)
                self._torn.add(number)
            else:
                self._take(number, time, text.replace("\r", "\n"))
        self._hear_again()

    def _take(self, number: int, time: int, text: str) -> None:
        if number in self._torn:
            _, end, text = text.partition("\n")
            if not end:
                return
            self._torn.remove(number)
        lines = (self._unfinished.pop(number, "") + text).split("\n")
        self._unfinished[number] = lines.pop()[-LONGEST_UNFINISHED:]
        for line in lines:
            if line:
                self._search(time, line)

    def _deafen(self) -> None:
        """Let what is printed go by until the next `drain`; in the thread that prints."""
        if self._deaf_since is None:
            self._deaf_since = self._clock()
            self._release()
            for number in range(len(self._streams)):
                self._waiting.append((number, self._deaf_since, None))

    def _hear_again(self) -> None:
        if self._deaf_since is not None:
            self._deaf_ns += self._clock() - self._deaf_since
            message = (
                "the workload printed more than %d kB/s for about %.1f s: what it logged then was found only in part"
            )
            self._gaps.note(
                "flood", message % (BUDGET / INTERVAL_SECONDS / 1000, self._deaf_ns / 1e9), "log less often", "note"
            )
            for stream, tee in self._streams:
                if self._on and "write" not in stream.__dict__:
                    stream.write = tee
            self._deaf_since = None
        self._left[0] = BUDGET

    def _release(self) -> None:
        """Give the streams their own `write` back, but for one that the script has wrapped meanwhile."""
        for stream, tee in self._streams:
            if stream.__dict__.get("write") is tee:
                stream.__dict__.pop("write", None)

    def _search(self, time: int, line: str) -> None:
        for figure in self._patterns.find(self._gaps.mask(line)):
            self._found(self._step(time), *figure)
