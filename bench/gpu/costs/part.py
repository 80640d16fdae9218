"""Truth for costs: products timed, aligned and not, and resize pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.gpu.costs import calibrate, timings
from bench.gpu.day import Day, Unit, status_of
from bench.gpu.machine import Framework

NAME = "costs"
WHAT = "times of products"
SHARE = 7.0
ORDER: Final = ("torch", "tensorflow", "jax")
"""Most telling first: PyTorch's graphs hide launches; XLA pads most unaligned products before a library sees them."""
Record = Callable[[Day, Framework, Path, float], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the two things to record through a framework.

    Attributes:
        name: what the unit's name begins with.
        record: records it.
        shares: of the part's time: through the first framework, and through each other one.
        least_s: with less time it is not begun: on a GPU, and on a dry run. Frameworks take 10 s to be imported, thrice
            for a calibration, which is done once, so it has to come as far as unaligned products.
        most_s: with more time it does not take longer.
    """

    name: str
    record: Record
    shares: tuple[float, float]
    least_s: tuple[float, float]
    most_s: float


KINDS: Final = (
    Kind("calibrate", calibrate.record, (5.0, 2.0), (120.0, 12.0), 300.0),
    Kind("pairs", timings.record, (3.0, 2.0), (25.0, 10.0), 240.0),
)


def units(day: Day) -> Iterator[Unit]:
    """Yield what to record."""
    found = [framework for name in ORDER if (framework := day.machine.framework(name)) is not None]
    planned = [(kind, framework, kind.shares[number > 0]) for number, framework in enumerate(found) for kind in KINDS]
    for number, (kind, framework, share) in enumerate(planned):
        left = [s for k, f, s in planned[number + 1 :] if not _is_there(day, k, f)]
        yield _unit(day, kind, framework, share / (share + sum(left)))


def _unit(day: Day, kind: Kind, framework: Framework, part: float) -> Unit:
    """Return a unit that takes a part of the time left, but no less than it needs; what it leaves is the next ones'."""
    least_s = kind.least_s[day.dry]

    def record(folder: Path, seconds: float) -> None:
        kind.record(day, framework, folder, min(seconds, kind.most_s, max(least_s, part * seconds)))

    about = {"framework": framework.name, "version": framework.version}
    return Unit(_name(kind, framework), record, most_s=3600.0, least_s=least_s, about=about)


def _is_there(day: Day, kind: Kind, framework: Framework) -> bool:
    return status_of(day.folder / NAME / _name(kind, framework)) == "done"


def _name(kind: Kind, framework: Framework) -> str:
    return f"{kind.name}-{framework.name}"
