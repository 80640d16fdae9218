"""Convert the units that Nsight Compute scales into base units: ns, byte, hz, and rates per second.

It prints 52.576 usecond for 52576 ns and 29.696 Kbyte/block for 29696 byte/block; prefixes are decimal. Source: Nsight
Compute CLI, "Metrics and Units" (`--print-units auto` and `base`), and reports of versions 2020.1 to 2025.3.
"""

from __future__ import annotations

import re
from typing import Final

from tcprobe.readers.rows import TO_NS

NS: Final = "ns"
_PREFIXES: Final = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_PREFIXED: Final = re.compile(r"([KMGTPE])((?:byte|bit|[Hh]z|inst|cycle|sector|request|warp|thread|block)s?)")


def base_unit(unit: str) -> tuple[float, str]:
    """Return what a value in this unit is multiplied by, and the base unit that it is in then.

    ``("usecond") -> (1000, "ns")``, ``("Gbyte/second") -> (1e9, "byte/second")``, ``("cycle/nsecond") -> (1e9,
    "cycle/second")``. A unit that ncu does not scale (%, register/thread) stays, with factor 1.
    """
    above, slash, below = unit.strip().partition("/")
    factor, name = _side(above)
    if not slash:
        return factor, name
    if below in TO_NS:
        return factor * 1e9 / TO_NS[below], f"{name}/second"
    divisor, per = _side(below)
    return factor / divisor, f"{name}/{per}"


def _side(unit: str) -> tuple[float, str]:
    if unit in TO_NS:
        return TO_NS[unit], NS
    if found := _PREFIXED.fullmatch(unit):
        return _PREFIXES[found[1]], "hz" if found[2] == "Hz" else found[2]
    return 1.0, "hz" if unit == "Hz" else unit
