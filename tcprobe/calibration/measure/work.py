"""Carry out the orders: describe the device, or measure cases and write their rows one by one.

Orders (JSON): `framework`, `device`, `tf32`, `out` (where to write the answer). With `cases` also `rows` (a CSV to
append whole lines to), `columns`, `source`, `seconds` (no case starts that would end later), `sample_ms`, `warm_ms`
and `warm_s` (before the first case). Cases are measured in order.
Answer (JSON): `about`, or `unusable` with the reason; `measured`; `left`, for lack of time; `broken`, left because the
device failed; and `failed`: reasons why cases failed, and how many did.
The time of a product is the median of samples, each of many executions on operands that are not in the cache.
"""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import BACKENDS
from .base import Session, Unusable

if TYPE_CHECKING:
    from .base import CaseRow

LONGEST_REASON = 200  # characters of a reason
SAMPLE_COUNT = 5
SAMPLE_NS = 10_000_000  # 10 ms: waiting for the device takes some 10 us, 0.1 % of that
WARM_NS = 20_000_000
SHORT_NS = 200_000  # one call queues several of the shorter products, so that Python does not slow them down
SHORT_SETS = 8
MOST_CALLS = 2000
SMALLEST = {"op": "gemm", "dtype": "float32", "m": 16, "n": 16, "k": 16, "batch": 1}


def carry_out(path: str) -> None:
    """Read the orders, carry them out, write the answer."""
    started = time.monotonic()
    orders = json.loads(Path(path).read_text(encoding="utf-8"))
    answer: dict[str, Any] = {}
    try:
        backend = next(b for b in BACKENDS if orders["framework"] == b.NAME)
        session = backend.open(orders["device"], orders["tf32"])
        answer["about"] = session.about()
        if orders.get("cases"):
            answer.update(_measured(session, orders, started + orders["seconds"]))
    except Unusable as error:
        answer["unusable"] = str(error)
    except ImportError as error:
        answer["unusable"] = f"{orders['framework']} cannot be imported: {_line(error)}"
    partial = Path(orders["out"] + ".part")
    partial.write_text(json.dumps(answer), encoding="utf-8")
    partial.replace(orders["out"])


def _measured(session: Session, orders: dict[str, Any], end: float) -> dict[str, Any]:
    failed: dict[str, int] = {}
    answer: dict[str, Any] = {"measured": 0, "failed": failed, "left": 0}
    cases, took, parent = orders["cases"], [0.0], os.getppid()
    _warm_up(session, orders)
    handle = os.open(orders["rows"], os.O_WRONLY | os.O_APPEND)
    try:
        for number, case in enumerate(cases):
            begun = time.monotonic()
            # the next case must end in time even if it is as slow as the slowest so far: nobody waits for an orphan
            if begun + max(took[-20:]) > end or os.getppid() != parent:
                answer["left"] = len(cases) - number
                break
            reason = _case(session, case, orders, handle)
            if not reason:
                answer["measured"] += 1
            else:
                failed[reason] = failed.get(reason, 0) + 1
                if not works(session):
                    answer["broken"] = len(cases) - number - 1
                    break
            gc.collect()  # reference cycles that a case leaves behind hold device memory
            took.append(time.monotonic() - begun)
    finally:
        os.close(handle)
    return answer


def _warm_up(session: Session, orders: dict[str, Any]) -> None:
    """Keep the device busy until its clocks have risen; these measurements are thrown away."""
    failures: tuple[type[BaseException], ...] = (NotFinite, MemoryError, *session.failures)
    end = time.monotonic() + orders.get("warm_s", 0.0)
    while time.monotonic() < end:
        case = orders["cases"][0]
        try:
            time_case(session, case["row"], case["sets"])
        except failures:
            return


def _case(session: Session, case: dict[str, Any], orders: dict[str, Any], handle: int) -> str:
    """Measure a case and write its row; return why it failed, empty if it did not."""
    row = dict(case["row"])
    try:
        ns = time_case(session, row, case["sets"], orders["sample_ms"] * 1_000_000, orders["warm_ms"] * 1_000_000)
    except NotFinite:
        return "a result is not finite"
    except MemoryError:
        return "out of memory"
    except session.failures as error:
        return f"{row['dtype']}: {_line(error)}"
    row.update(time_ns=f"{ns:.1f}", source=orders["source"])
    # write the line at once: a run that is killed then leaves only whole lines
    os.write(handle, (_csv([row.get(name, "") for name in orders["columns"]]) + "\n").encode("utf-8"))
    return ""


def _csv(values: list[Any]) -> str:
    texts = [str(value) for value in values]
    return ",".join('"' + t.replace('"', '""') + '"' if set(t) & set(',"\r\n') else t for t in texts)


def _line(error: BaseException) -> str:
    text = " ".join((str(error) or type(error).__name__).split())
    return text[:LONGEST_REASON]


class NotFinite(Exception):
    """The result of a product has infinities or NaN."""


def time_case(session: Session, case: CaseRow, sets: int, sample_ns: int = SAMPLE_NS, warm_ns: int = WARM_NS) -> float:
    """Return the time of one execution of a case, in ns.

    Args:
        session: the framework to measure through.
        case: the columns of its row.
        sets: number of sets of operands that take turns, so that they come from memory, as in a training step, and not
            from the second-level cache, where the previous execution left them.
        sample_ns: minimum time of a sample.
        warm_ns: minimum time of executions before the first sample.

    Raises:
        NotFinite: the result shows that the product does not work.
    """
    sample = sampler(session, case, sets, sample_ns, warm_ns)
    return statistics.median([sample() for _ in range(SAMPLE_COUNT)])


def sampler(
    session: Session, case: CaseRow, sets: int, sample_ns: int = SAMPLE_NS, warm_ns: int = WARM_NS
) -> Callable[[], float]:
    """Prepare a case, warm up, and return a call that takes one sample: the time of one execution, in ns.

    Arguments and errors are those of `time_case`.
    """
    function = session.function(case)
    operands = [session.operands(case)]
    run = session.together(function, operands)
    results = run()
    session.wait(results)
    if not session.finite(results):
        raise NotFinite
    del results
    if min(timed(session, run, 1) for _ in range(3)) < SHORT_NS:
        sets = max(sets, SHORT_SETS)
    if sets > 1:
        operands += [session.operands(case) for _ in range(sets - 1)]
        run = session.together(function, operands)
    once = _warm(session, run, warm_ns)
    calls = min(MOST_CALLS, max(1, math.ceil(sample_ns / max(once, 1))))
    return lambda: timed(session, run, calls) / (calls * sets)


def works(session: Session) -> bool:
    """Say whether the device still computes: after an illegal access nothing does until the process ends."""
    try:
        session.wait(session.operands(SMALLEST))
    except session.failures:
        return False
    return True


def timed(session: Session, run: Callable[[], Any], calls: int) -> int:
    """Return the time of `calls` calls in ns, until the device has finished them."""
    start = time.perf_counter_ns()
    for _ in range(calls):
        results = run()
    session.wait(results)
    return time.perf_counter_ns() - start


def _warm(session: Session, run: Callable[[], Any], warm_ns: int) -> int:
    """Run for a while; return the time of the shortest call, or of the shortest several queued together."""
    least, spent = timed(session, run, 1), 0
    while spent < warm_ns:
        calls = max(1, min(MOST_CALLS, warm_ns // (4 * max(least, 1))))
        took = timed(session, run, calls)
        least, spent = min(least, took // calls), spent + took
    return least
