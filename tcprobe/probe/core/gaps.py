"""Guards every hook: one that fails becomes a named gap, and the workload runs on."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Type, TypeVar

Result = TypeVar("Result")


class Gaps:
    """What this version of the framework lacks, what the probe could not do, and what the report should say.

    Attributes:
        gaps: ``{"hook", "reason"}``, one per hook at most; ``"raised": True`` where the reason is an exception's text,
            which reports do not show.
        notes: ``{"code", "message", "remedy", "level"}``, one per code at most.

    Args:
        mask: returns a text without the secrets of the command line.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self.mask = mask
        self.gaps: List[Dict[str, Any]] = []
        self.notes: List[Dict[str, Optional[str]]] = []

    def add(self, hook: str, reason: object) -> None:
        """Record that `hook` does not work; later reasons for the same hook are dropped."""
        if all(gap["hook"] != hook for gap in self.gaps):
            system = reason.strerror if isinstance(reason, OSError) else None  # a full disk is no fault of the hook's
            raised = isinstance(reason, BaseException) and not system
            text = "%s: %s" % (type(reason).__name__, reason) if raised else str(system or reason)
            said = self.mask(text).splitlines()[0][:300] if text else "unknown"
            self.gaps.append({"hook": hook, "reason": said, **({"raised": True} if raised else {})})

    def close(self, hook: str) -> None:
        """Forget that `hook` did not work: what it missed was made good."""
        self.gaps[:] = [gap for gap in self.gaps if gap["hook"] != hook]

    def note(self, code: str, message: str, remedy: Optional[str] = None, level: str = "warning") -> None:
        """Record a sentence for the report; a second one under the same code replaces the first."""
        self.notes = [n for n in self.notes if n["code"] != code]
        self.notes.append({"code": code, "message": self.mask(message), "remedy": remedy, "level": level})

    def run(self, hook: str, action: Callable[[], Result], default: Optional[Result] = None) -> Optional[Result]:
        """Return what `action` returns; where it raises, record a gap and return `default`."""
        try:
            return action()
        except Exception as error:
            self.add(hook, error)
            return default


class Guard:
    """Context manager that turns an exception of the probe's own into a named gap."""

    def __init__(self, gaps: Gaps, hook: str) -> None:
        self._gaps = gaps
        self._hook = hook

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._gaps.add(self._hook, error)
        return True
