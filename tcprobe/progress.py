"""How far the work is: what takes long says so, and who talks to a person may show it (`tcprobe.cli.progress`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final


class _Now:
    """What is being done, how much of it is done and of how much in all, None where nobody knows; and who shows it."""

    __slots__ = ("done", "of", "show", "what")

    def __init__(self) -> None:
        self.what, self.done, self.of = "", 0, None
        self.show: Callable[[], AbstractContextManager[Any]] = nullcontext

    what: str
    done: int
    of: int | None


now: Final = _Now()


def begin(what: str, of: int | None = None) -> None:
    """Say what is done from here on, and how much of it there is, in any unit; None where nobody knows."""
    now.what, now.done, now.of = what, 0, of


def advance(by: int = 1) -> None:
    """Say that so much more of it is done."""
    now.done += by


@contextmanager
def shown() -> Iterator[None]:
    """Have what is done within shown, if it takes long, by whoever asked for that: the outermost time alone."""
    show, now.show = now.show, nullcontext
    try:
        with show():
            yield
    finally:
        now.show = show
