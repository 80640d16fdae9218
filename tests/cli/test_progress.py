"""What shows work that takes long: a bar on a terminal, one line elsewhere, nothing where it is quick."""

from __future__ import annotations

import os
import pty
import re
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest

from tcprobe.cli import progress
from tcprobe.cli.options import chosen
from tcprobe.progress import advance, begin


def work(error: type[BaseException] | None = None) -> None:
    with progress.long_work():
        begin("reading a\x1b[31mb", 4)
        advance(3)
        time.sleep(0.1)
        if error is not None:
            raise error


def on_terminal(run: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what `run` writes to standard error, where that is a terminal."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as changed:
        changed.setattr(sys, "stderr", terminal)
        changed.setenv(progress.PATIENCE, "0")
        changed.setattr(progress, "REFRESH_S", 0.01)
        changed.setenv("TERM", "xterm-256color")
        run()
        terminal.flush()
        os.set_blocking(ours, False)
        parts = list[bytes]()
        with suppress(BlockingIOError):
            while True:
                parts.append(os.read(ours, 4096))
    os.close(ours)
    return b"".join(parts).decode()


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_a_bar_is_drawn_and_gone(error: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        with nullcontext() if error is None else pytest.raises(error):
            work(error)

    written = on_terminal(run, monkeypatch)
    assert "reading a\\x1b[31mb" in written and " 75%" in written and "0 s" in written
    assert written.endswith("\x1b[1A\x1b[2K")  # on the line of the bar, which is empty again
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")  # the cursor is shown


@pytest.mark.parametrize("by", ["NO_COLOR", "--color"])
def test_no_colours_where_none_are_wanted(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    colour = re.compile(r"\x1b\[[0-9;]*m")
    assert colour.search(on_terminal(work, monkeypatch))
    if by == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.setitem(chosen, "color", "never")
    assert not colour.search(on_terminal(work, monkeypatch))


def test_elsewhere_it_is_one_line_and_nothing_where_it_is_quick(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(progress.PATIENCE, "two")  # no number: two
    work()
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv(progress.PATIENCE, "0.01")
    work()
    assert capsys.readouterr() == ("", "tcprobe: reading a\\x1b[31mb ...\n")
