"""What `--fail-if` does to a command: each condition's outcome on standard error, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from tcprobe.visible import say

if TYPE_CHECKING:
    from tcprobe.schema.changes.condition import Verdict


@contextmanager
def judged(verdicts: Sequence[Verdict], names: Sequence[str]) -> Iterator[None]:
    """Print a document within; then tell what became of the conditions, and exit with 1 or 2 where they say so.

    A reader who closes the pipe does not take the outcome away; a failure to write counts before it.

    Args:
        verdicts: of all conditions; nothing happens where there are none.
        names: of the runs; empty where there is one alone.
    """
    try:
        yield
    except BrokenPipeError:
        if not verdicts:
            raise
    if not verdicts:
        return
    from tcprobe.flows.conditions.judge import exit_code
    from tcprobe.report.compare.words import outcome

    for verdict in verdicts:
        say(f"--fail-if {outcome(verdict, names)}")
    if code := exit_code(verdicts):
        raise typer.Exit(code)
