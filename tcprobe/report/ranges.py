"""Format predicted times for people: ranges in one unit, as precise as a prediction is."""

from __future__ import annotations

import math
from typing import Final

from tcprobe.schema.finding import Range

# Size of a unit in ns, the shortest time printed in it, and its name: 0.4 ms reads better than 400 us.
TIME_UNITS: Final = ((1e9, 1e9, "s"), (1e6, 1e5, "ms"), (1e3, 1e3, "us"), (1.0, 0.0, "ns"))
WIDE: Final = 2.5  # times the low end: from here on a range says little without its likely value


def about(ns: Range) -> str:
    """Return a range, with its likely value if the range is wide: ``up to 4 ms (likely 1 ms)``."""
    if ns.low > 0 and ns.high <= WIDE * ns.low:
        return range_text(ns)
    return f"{range_text(ns)} (likely {likely(ns)})"


def likely(ns: Range) -> str:
    """Return the likely value of a range of ns; ``nothing`` if it is not above 0."""
    return range_text(Range(ns.mid, ns.mid, ns.mid)) if ns.mid > 0 else "nothing"


def range_text(ns: Range) -> str:
    """Return a range of ns in one unit (``0.4-0.6 ms``), or one figure if both ends print alike.

    A range whose start is negative or prints as 0 is ``up to`` its end.
    """
    size, unit = next(((s, u) for s, least, u in TIME_UNITS if ns.high >= least), (1.0, "ns"))
    low, high = _digits(ns.low / size), _digits(ns.high / size)
    if ns.high > 0 and (ns.low <= 0 or low == "0"):
        return f"up to {high} {unit}"
    return f"{high} {unit}" if low == high else f"{low}-{high} {unit}"


def _digits(value: float) -> str:
    """Return two significant digits, and all digits before the point."""
    if value == 0 or abs(value) >= 9.95:
        return f"{value:.0f}"
    places = max(0, 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(places, 2)}f}".rstrip("0").rstrip(".") or "0"
