"""Compare analysed profiles: figures, layers, ops, kernels, what the workloads logged, and settings.

Compare what names do not join: NVTX ranges by their mean length, kernels by their place in a unit that repeats.

Kernels have other names with another GPU or library; where runs repeat a unit of as many launches, the one that stands
in the same place does the same work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.compare.figures import figures_of
from tcprobe.analysis.compare.rows import compared_rows, joined, losses_of, renamed_kernels
from tcprobe.analysis.compare.runs import Run, notes_of, runs_of, settings_of
from tcprobe.analysis.kernels.kinds import kind_of
from tcprobe.analysis.units import find_units
from tcprobe.errors import UsageError
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.comparison import ComparedPlace, ComparedRange, Comparison
from tcprobe.schema.kinds import KernelKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of

LEAST_ALIKE: Final = 0.9  # of the kernels of a unit must do the same kind of work in the same place
LONGEST: Final = 4096  # kernels; a longer unit is not turned


def compared_ranges(runs: Sequence[Run]) -> tuple[ComparedRange, ...]:
    """Return the ranges that two runs or more have, by what their calls changed most."""
    found = [{(r["domain"], r["name"]): r for r in run.profile.require("range_times").rows()} for run in runs]
    rows = []
    for key in {key for each in found for key in each}:
        held = [each.get(key) for each in found]
        means = tuple(None if row is None else float(row["mean_ns"] or 0.0) for row in held)
        calls = tuple(None if row is None else int(row["calls"] or 0) for row in held)
        changes = tuple(None if None in (means[0], mean) else (mean or 0.0) - (means[0] or 0.0) for mean in means[1:])
        if sum(mean is not None for mean in means) > 1:
            domain, name = key
            rows.append(ComparedRange(str(name), text_of(domain), means, changes, calls))
    return tuple(sorted(rows, key=lambda row: (-_weight(row), row.name, row.domain or "")))


def _weight(row: ComparedRange) -> float:
    """Return what the change of a range amounts to in the run where it is called most."""
    calls = max(call or 0 for call in row.calls)
    return max((abs(change) for change in row.changes if change is not None), default=0.0) * calls


class _Unit(NamedTuple):
    """The kernels of a unit in order, of all its repeats on one GPU."""

    kernels: list[str]
    kinds: list[KernelKind]
    mean_ns: FloatArray

    def turned(self, by: int) -> _Unit:
        """Return the unit begun so many kernels later."""
        kernels, kinds = self.kernels[by:] + self.kernels[:by], self.kinds[by:] + self.kinds[:by]
        return _Unit(kernels, kinds, np.roll(self.mean_ns, -by))


def compared_places(runs: Sequence[Run]) -> tuple[ComparedPlace, ...]:
    """Return the kernels of the unit that the runs repeat, place by place; empty where they repeat no such unit.

    Of each run the unit of the GPU with the most launches counts. One may begin elsewhere in another run: it is turned
    to where most of its kernels are of one kind with those of the first.
    """
    units = [_unit(run.profile) for run in runs]
    first = units[0]
    if first is None:
        return ()
    others = [None if unit is None else _aligned(first, unit) for unit in units[1:]]
    if all(unit is None for unit in others):
        return ()
    aligned, places = [first, *others], list[ComparedPlace]()
    for place, kind in enumerate(first.kinds):
        names = tuple(None if unit is None else unit.kernels[place] for unit in aligned)
        means = tuple(None if unit is None else float(unit.mean_ns[place]) for unit in aligned)
        changes = tuple(None if mean is None else mean - float(first.mean_ns[place]) for mean in means[1:])
        places.append(ComparedPlace(place, kind, names, means, changes))
    return tuple(sorted(places, key=lambda one: (-max(abs(change or 0.0) for change in one.changes), one.place)))


def _unit(profile: Profile) -> _Unit | None:
    found = next(iter(find_units(profile)), None)
    if found is None:
        return None
    launches, repeats = profile.require("launches"), found.repeats
    rows = found.rows[repeats.starts[:, None] + np.arange(repeats.period)]
    kernels = launches.names("kernel")
    names = [str(kernels[row]) for row in rows[0].tolist()]
    kinds = {name: kind_of(name) for name in set(names)}
    spent = launches.numbers("duration_ns").astype(np.float64)
    return _Unit(names, [kinds[name] for name in names], spent[rows].mean(axis=0))


def _aligned(first: _Unit, other: _Unit) -> _Unit | None:
    """Return a unit turned to begin where the first does; None where it is another one."""
    size = len(first.kinds)
    if len(other.kinds) != size:
        return None
    codes = {kind: code for code, kind in enumerate(sorted({*first.kinds, *other.kinds}))}
    one, two = (np.array([codes[kind] for kind in unit.kinds]) for unit in (first, other))
    names = {name: code for code, name in enumerate({*first.kernels, *other.kernels})}
    name_one, name_two = (np.array([names[name] for name in unit.kernels]) for unit in (first, other))
    turns = range(size if size <= LONGEST else 1)
    alike = [(_alike(one, two, by), _alike(name_one, name_two, by), -by) for by in turns]
    kinds, _, by = max(alike)
    return other.turned(-by) if kinds >= LEAST_ALIKE * size else None


def _alike(one: NDArray[np.int64], two: NDArray[np.int64], by: int) -> int:
    return int((one == np.roll(two, -by)).sum())


def compare(profiles: Sequence[Profile], names: Sequence[str]) -> Comparison:
    """Hold runs against the first one; docs/compare.md gives the formulas.

    Sums over the counted steps are of one step; where a run marks none, those of whole captures are compared. The
    same profiles give the same result, whatever the order of their rows.

    Args:
        profiles: analysed; two or more.
        names: what to call each.

    Raises:
        UsageError: fewer than two profiles.
    """
    if len(profiles) < 2:
        raise UsageError("one run alone cannot be compared", "as in: tcprobe compare RUN_A RUN_B")
    runs, per_step = runs_of(profiles)
    parts, figures = joined(runs), figures_of(runs)
    return Comparison(
        tuple(names),
        tuple(profiles),
        figures,
        layers=compared_rows(runs, parts.layers),
        ops=compared_rows(runs, parts.ops),
        kernels=compared_rows(runs, parts.kernels),
        renamed=renamed_kernels(runs, parts),
        ranges=(ranges := compared_ranges(runs)),
        places=compared_places(runs),
        losses=losses_of(runs),
        per_step=per_step,
        settings=settings_of(runs),
        notes=tuple(notes_of(runs, names, figures, ranges)),
    )
