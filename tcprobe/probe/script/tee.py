"""Listens to what the script prints, inside the process: the streams stay the script's own.

Only the `write` of a stream object is shadowed, by one that writes first and then remembers the text; the file
descriptor, `isatty()` and the object itself are untouched. Text is cut into lines and searched by the journal's
thread, not by the thread that prints.

What is printed faster than is worth searching goes by: the streams then have their own `write` again until the thread
has caught up. A line of which a part went by is not searched, as a number cut short is another number.
"""

from __future__ import annotations

import collections
import sys
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from ..core.gaps import Gaps
from ..core.journal import INTERVAL_SECONDS
from ..core.metrics import Patterns

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
