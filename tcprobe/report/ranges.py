"""Predicted times as a person reads them: ranges in one unit, as precise as a prediction is."""

from __future__ import annotations

import math
from typing import Final

from tcprobe.schema.finding import Range

# Size of a unit in ns, the least time that is told in it, and its name: 0.4 ms reads better than 400 us.
UNITS: Final = ((1e9, 1e9, "s"), (1e6, 1e5, "ms"), (1e3, 1e3, "us"), (1.0, 0.0, "ns"))
WIDE: Final = 2.5  # times the low end: from there on both ends of a range tell little without what is likely


def about(ns: Range) -> str:
    """Return a range, and what is likely where its ends lie far apart: ``up to 4 ms (likely 1 ms)``."""
    if ns.low > 0 and ns.high <= WIDE * ns.low:
        return span(ns)
    return f"{span(ns)} (likely {likely(ns)})"


def likely(ns: Range) -> str:
    """Return the likely value of a range of nanoseconds; ``nothing`` of what is not above 0."""
    return span(Range(ns.mid, ns.mid, ns.mid)) if ns.mid > 0 else "nothing"


def span(ns: Range) -> str:
    """Return a range of nanoseconds in one unit (``0.4-0.6 ms``), one figure where both ends print alike.

    A range that starts at 0, as it prints, or below is ``up to`` its end.
    """
    size, unit = next(((s, u) for s, least, u in UNITS if ns.high >= least), (1.0, "ns"))
    low, high = _digits(ns.low / size), _digits(ns.high / size)
    if ns.high > 0 and (ns.low <= 0 or low == "0"):
        return f"up to {high} {unit}"
    return f"{high} {unit}" if low == high else f"{low}-{high} {unit}"


def _digits(value: float) -> str:
    """Return two significant digits, all before the point."""
    if value == 0 or abs(value) >= 9.95:
        return f"{value:.0f}"
    places = max(0, 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(places, 2)}f}".rstrip("0").rstrip(".") or "0"
