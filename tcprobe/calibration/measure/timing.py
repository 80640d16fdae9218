"""Time a product: the median of samples, each of many executions on operands that are not in the cache."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import CaseRow, Session

SAMPLE_COUNT = 5
SAMPLE_NS = 10_000_000  # 10 ms: waiting for the device takes some 10 us, 0.1 % of that
WARM_NS = 20_000_000
SHORT_NS = 200_000  # one call queues several of the shorter products, so that Python does not slow them down
SHORT_SETS = 8
MOST_CALLS = 2000
SMALLEST = {"op": "gemm", "dtype": "float32", "m": 16, "n": 16, "k": 16, "batch": 1}


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
    return median([sample() for _ in range(SAMPLE_COUNT)])


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


def median(values: Sequence[float]) -> float:
    """Return the median."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
