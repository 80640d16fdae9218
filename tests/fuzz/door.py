"""Call tcprobe's `main` in this process and take what it prints, as a terminal would get it."""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

from tcprobe.__main__ import main
from tcprobe.cli import app
from tcprobe.cli import ending as crash
from tcprobe.flows import report
from tcprobe.flows.audit import flow
from tests.support import ROOT


@dataclass(frozen=True)
class Said:
    """What one call left: its exit code, its two streams, and the bug that ended it, if one did."""

    code: int
    out: bytes
    err: bytes
    bug: Exception | None = None


@dataclass(frozen=True)
class Call:
    """One command line and the format that it prints."""

    arguments: tuple[str, ...]
    format: str


_bugs: list[Exception] = []
_done: dict[Hashable, Any] = {}


def prepare() -> None:
    """Change this process: keep bugs instead of writing a log, show every warning, do each analysis once an input."""

    def keep(error: Exception) -> int:
        _bugs.append(error)
        return 3

    crash.report_bug = keep
    app.application = _built(app.application)
    report.make_report = _once(report.make_report)
    flow.audit = _once(flow.audit)
    sys.dont_write_bytecode = True
    for kind in (RuntimeWarning, UserWarning, SyntaxWarning):
        warnings.simplefilter("always", kind)


def forget() -> None:
    """Forget what was done for the last input."""
    _done.clear()
    _bugs.clear()


def _built(application: Callable[..., Any]) -> Callable[..., Any]:
    """Return `application` so that the options of a verb are set up once."""
    made: dict[str, Any] = {}

    def built(arguments: Sequence[str]) -> Any:
        verb = arguments[0]
        if verb not in made:
            made[verb] = get_command(application(arguments))
        return made[verb]

    return built


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does for the same first argument (and options) nothing again."""

    def once(first: Any, *more: Any) -> Any:
        key = (function.__name__, repr((first, *(m for m in more if not callable(m)))))
        if key not in _done:
            try:
                _done[key] = function(first, *more), None
            except Exception as error:  # noqa: BLE001 - raised again, here and at the next call
                _done[key] = None, error
        made, error = _done[key]
        if error is not None:
            raise error
        return made

    return once


def call(*arguments: str) -> Said:
    """Run one command line."""
    before = sys.argv, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    streams = io.TextIOWrapper(out, "utf-8"), io.TextIOWrapper(err, "utf-8", "backslashreplace")
    sys.argv, sys.stdout, sys.stderr = ["tcprobe", *arguments], *streams
    try:
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.stdout, sys.stderr = before
    for stream in streams:
        stream.flush()
    made = Said(code, out.getvalue(), err.getvalue(), _bugs.pop() if code == 3 and _bugs else None)
    for stream in streams:
        stream.detach()
    return made


def where(error: BaseException) -> str:
    """Return the innermost line of tcprobe in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if str(ROOT / "tcprobe") in f.filename] or list(frames)
    return f"{Path(ours[-1].filename).relative_to(ROOT)}:{ours[-1].lineno}" if ours else "?"
