"""Shows what takes long: work by a bar on a terminal and one line elsewhere, a run in place and line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcprobe.cli.options import chosen, wants_color
from tcprobe.progress import now
from tcprobe.visible import put, say, tell, visible

if TYPE_CHECKING:
    from threading import Event

    from tcprobe.flows.watch import Look

PATIENCE: Final = "TCPROBE_PROGRESS_SECONDS"
"""The variable that sets after how many seconds work is shown; what is done sooner shows nothing."""
MOST: Final = 1e6  # what an event waits for
REFRESH_S: Final = 0.1
BAR: Final = 24  # columns
LINE_EVERY: Final = 10  # looks at a run


@contextmanager
def long_work() -> Iterator[None]:
    """Show what `tcprobe.progress` says of the work within, once that has taken some seconds; then clear it."""
    from threading import Event, Thread

    over = Event()
    watcher = Thread(target=_watch, args=(over,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(over: Event) -> None:
    patience = _seconds(os.environ.get(PATIENCE, ""))
    if over.wait(patience):
        return
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        _bar(over, patience)
    else:
        say(f"{now.what} ...")


def _seconds(text: str) -> float:
    try:
        return min(max(0.0, float(text)), MOST)
    except ValueError:
        return 2.0


def _bar(over: Event, spent: float) -> None:
    """Draw a bar until the work is over; where it is killed meanwhile, the cursor is still there."""
    from time import monotonic

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    began = monotonic() - spent
    console = Console(file=sys.stderr, no_color=chosen["color"] == "never" or None)
    room = console.width - BAR - 16
    what, since = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[since]:.0f} s")
    columns = (what, BarColumn(BAR), TaskProgressColumn(), since)
    with Progress(*columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False) as bar:
        console.show_cursor(True)
        task = bar.add_task(visible(now.what)[:room], total=now.of, completed=now.done, since=spent)
        while not over.wait(REFRESH_S):
            bar.tasks[0].total = now.of  # `update` would keep the last one where there is none
            said, spent = visible(now.what)[:room], monotonic() - began
            bar.update(task, description=said, completed=now.done, since=spent, refresh=True)


def watch(path: Path | None, on_stdout: bool) -> Path:
    """Show a run until it ends, and return its folder.

    Args:
        path: as for `tcprobe.flows.watch.follow`.
        on_stdout: whether lines go where the report goes; else to standard error.
    """
    from tcprobe.flows.watch import follow

    if on_stdout and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return _in_place(path)
    write, looks, ended = put if on_stdout else tell, 0, False

    def show(look: Look) -> None:
        nonlocal looks, ended
        if looks % LINE_EVERY == 0 or look.finished != ended:
            write(", ".join(f"{label} {text}" for label, text in _facts(look)))
        looks, ended = looks + 1, look.finished

    return follow(path, show)


def _in_place(path: Path | None) -> Path:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from tcprobe.flows.watch import follow

    console = Console(no_color=not wants_color(), highlight=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show(look: Look) -> None:
            lines = [f"Watching {look.place}; Ctrl-C ends the watching, not the run"]
            lines += [f"  {label:<12}{text}" for label, text in _facts(look)]
            live.update(Text("\n".join(map(visible, lines)), no_wrap=True, overflow="ellipsis"), refresh=True)

        return follow(path, show)


def _facts(look: Look) -> list[tuple[str, str]]:
    from tcprobe.report.run.watch import watch_facts

    return watch_facts(look.steps, look.metrics, look.silent_s, look.finished)
