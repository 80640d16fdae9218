"""The words for a run that goes on: how far it is, how fast, and what it logged last."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcprobe.formatting import count, duration, full_number, since_step
from tcprobe.grouping import lasting_since
from tcprobe.schema.columns import Table

RECENT: Final = 50  # steps that the step time is the median of
MOST_LOSSES: Final = 4


def watch_facts(
    steps: Table | None, metrics: Table | None, silent_s: float, finished: bool = False
) -> list[tuple[str, str]]:
    """Return what a run has done, as (label, text) pairs.

    Args:
        steps: the last ones; the last of all is the one that runs.
        metrics: what was logged last.
        silent_s: seconds since a step began, or since the run did.
        finished: whether the workload has ended.
    """
    facts = list[tuple[str, str]]()
    step_ns = None
    if steps is not None:
        kind, length = steps.names("kind")[-1 + len(steps)], steps.numbers("duration_ns")
        recent = length[~np.isnan(length)][-RECENT:]
        phase = "profiling done" if kind == "after" else kind
        facts.append(("steps", f"{count(int(steps.numbers('step')[-1]))} ({phase})"))
        if len(recent):
            step_ns = float(np.median(recent))
            facts.append(("step time", duration(step_ns)))
    facts += _speed(step_ns, metrics)
    facts += _losses(metrics)
    ago = f"{round(silent_s):,} s"
    if finished:
        return [*facts, ("now", "the workload has ended, and its profile is being read")]
    return [*facts, ("last step", f"{ago} ago") if steps is not None else ("no step yet", f"after {ago}")]


def _speed(step_ns: float | None, metrics: Table | None) -> list[tuple[str, str]]:
    """Return the throughput as logged, else steps a second."""
    rows = [] if metrics is None else [row for row in metrics.rows() if "throughput" in str(row["name"]).lower()]
    if rows:
        return [("throughput", f"{full_number(float(rows[-1]['value'] or 0))} {rows[-1]['unit'] or ''}".rstrip())]
    return [("throughput", f"{full_number(1e9 / step_ns, 3)} steps/s")] if step_ns else []


def _losses(metrics: Table | None) -> list[tuple[str, str]]:
    """Return the last value of each loss, and since which step it is no finite number, where that was seen."""
    if metrics is None:
        return []
    texts, names = list[tuple[str, str]](), metrics.names("name")
    for name in (one for one in names.names if "loss" in one.lower()):
        mine = metrics.take(names.among(name))
        values = mine.numbers("value")
        since, text = lasting_since(values), full_number(float(values[-1]))
        texts.append((name, since_step(text, mine.values("step")[since]) if since else text))
    more = [("more losses", str(len(texts) - MOST_LOSSES))] if len(texts) > MOST_LOSSES else []
    return texts[:MOST_LOSSES] + more
