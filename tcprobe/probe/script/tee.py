"""Listens to what the script prints, inside the process: the streams stay the script's own.

Only the `write` of a stream object is shadowed, by one that writes first and then remembers the text; the file
descriptor, `isatty()` and the object itself are untouched. Text is cut into lines and searched by the journal's
thread, not by the thread that prints.
"""

from __future__ import annotations

import collections
import sys
from typing import Any, Callable, Deque, Dict, List, Tuple

from ..core.gaps import Gaps
from ..core.metrics import Patterns

# Writes that may wait for the thread; a script that prints faster loses figures, never output.
MOST_WAITING = 20_000
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
        self._waiting: Deque[Tuple[int, int, str]] = collections.deque(maxlen=MOST_WAITING)
        self._unfinished: Dict[int, str] = {}
        self._streams: List[Any] = []
        self._on = True

    def listen(self, stream: Any) -> None:
        """Shadow `write` of a text stream."""
        if stream is None or "write" in getattr(stream, "__dict__", {"write": None}):
            return
        write, waiting, clock, number = stream.write, self._waiting, self._clock, len(self._streams)

        def tee(text: str) -> Any:
            result = write(text)
            waiting.append((number, clock(), text))
            return result

        stream.write = tee
        self._streams.append(stream)

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
        for stream in self._streams:
            if "write" in getattr(stream, "__dict__", {}):
                del stream.write
        self._on = False

    def drain(self) -> None:
        """Search what has been printed since the last call."""
        while self._waiting:
            number, time, text = self._waiting.popleft()
            if not isinstance(text, str):
                continue
            lines = (self._unfinished.pop(number, "") + text).replace("\r", "\n").split("\n")
            self._unfinished[number] = lines.pop()[-LONGEST_UNFINISHED:]
            for line in lines:
                if line:
                    self._search(time, line)

    def _search(self, time: int, line: str) -> None:
        for figure in self._patterns.find(self._gaps.mask(line)):
            self._found(self._step(time), *figure)
