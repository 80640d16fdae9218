"""The window where a tool records the process from outside: one recording, which an NVTX range begins and ends."""

from __future__ import annotations

from typing import Callable, List, Sequence

from .config import Config
from .core.gaps import Gaps
from .core.ranges import Ranges
from .core.window import CLOSE, MOST_UNSETTLED, PHASE_ENDS, Actions, WindowState


class RecordedRange:
    """The range that the recording begins and ends with; a `core.framework.Profiler`.

    A tool takes the first such range alone, so that what is closed cannot be opened again. Beside the tool the script's
    own profiler is left alone.

    Attributes:
        available: a tool listens.
        is_open: it records.
    """

    def __init__(self, ranges: Ranges, gaps: Gaps) -> None:
        self.available = False
        self.is_open = False
        self.preempted: Callable[[], None] = lambda: None
        self.script_began: Callable[[], None] = lambda: None
        self.script_ends: Callable[[], None] = lambda: None
        self.script_ended: Callable[[List[str]], None] = lambda _: None
        self._ranges = ranges
        self._gaps = gaps
        self._over = False

    def find_tool(self) -> None:
        """Look for the tool, before anything of the script's is imported."""
        self._ranges.find_tool(early=True)
        self.available = self._ranges.listening

    def start(self) -> bool:
        """Begin the range; return False where no tool listens, or its recording is over."""
        if not self.is_open and not self._over:
            self.is_open = bool(self._gaps.run("profiler start", self._ranges.begin_window))
        return self.is_open

    def stop(self) -> None:
        """End the range: the tool writes what it has recorded, and the steps go on unmarked."""
        if self.is_open:
            self.is_open, self._over = False, True
            self._gaps.run("profiler stop", self._ranges.end_window)

    drop = discard = stop

    def size(self) -> int:
        """Return 0: the tool writes the recording elsewhere."""
        return 0

    def adopt(self, paths: Sequence[str]) -> None:
        """Leave the script's own profiles where they are."""


class RecordedWindow(WindowState):
    """A window within one recording, which is not taken again: where steps or phases prove to be others, it moves on.

    Args:
        config, numbers, starts: as of `WindowState`.
        certain: says whether the steps that begin now are marked with their numbers.
    """

    def __init__(
        self, config: Config, numbers: Sequence[int], starts: Sequence[int], certain: Callable[[], bool]
    ) -> None:
        super().__init__(config, numbers, starts)
        self._certain = certain

    def revised(self, row: int) -> None:
        """Note that the steps from `row` on were wrong: the window begins anew where step times settle."""
        if self.state == "open" and not self._asked():
            self._opened_row, self.first_row = min(self._opened_row, row), None

    def phase_began(self, row: int) -> None:
        """Note that other functions train from `row` on; the later phase counts, should it be as long."""
        if self._asked() or self.state != "open" or row <= self._opened_row:
            return
        if self.first_row is not None and self.first_row < row:
            self.last_row, self.reason = row - 1, self.reason + PHASE_ENDS
            self._earlier = self._taken()
        self._opened_row, self.first_row, self.last_row, self.reason = row, None, None, ""

    def _settle(self, row: int, number: int, now: int) -> None:
        if self._certain() or row >= MOST_UNSETTLED:
            super()._settle(row, number, now)

    def _close(self, last_row: int) -> Actions:
        super()._close(last_row)
        return (CLOSE,)
