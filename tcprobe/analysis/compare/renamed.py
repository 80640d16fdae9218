"""Find the kernels that took the place of others: of an op, else of a layer, else of the whole run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tcprobe.analysis.compare.basis import Run
from tcprobe.analysis.compare.rows import Joined, Parts
from tcprobe.analysis.ops.table import NO_OP
from tcprobe.schema.changes.comparison import Renamed

Op: TypeAlias = tuple[str, str | None]
Times: TypeAlias = dict[str, float]
"""Kernel -> time within the window, in ns."""


def renamed_kernels(runs: Sequence[Run], parts: Joined) -> tuple[Renamed, ...]:
    """Return where other kernels run than in the first run, costliest first.

    Ops that both runs have are held against one another; of the others, layers that both have; the rest as a whole.
    """
    found = [one for number in range(1, len(runs)) for one in _against(runs, parts, number)]
    return tuple(sorted(found, key=lambda r: (-max(r.before_ns, r.after_ns), r.run, r.op or "", r.before)))


def _against(runs: Sequence[Run], parts: Joined, number: int) -> Iterator[Renamed]:
    ops = [_ops(parts.kernels_by_op[run]) for run in (0, number)]
    common = (ops[0].keys() & ops[1].keys()) - {(NO_OP, None)}
    groups = [_grouped(ops[side], common, parts.ops[run]) for side, run in enumerate((0, number))]
    both = groups[0].keys() & groups[1].keys()
    shares = runs[0].share, runs[number].share
    for place in sorted(both - {None}, key=str):
        yield from _changed(place[0] if place else None, groups[0][place], groups[1][place], shares, number)
    rest = [_together(times for place, times in group.items() if place not in both or not place) for group in groups]
    yield from _changed(None, rest[0], rest[1], shares, number)


def _ops(rows: Iterable[tuple[str, str | None, str, float]]) -> dict[Op, Times]:
    found: dict[Op, Times] = {}
    for op, op_type, kernel, ns in rows:
        times = found.setdefault((op, None if op == NO_OP else op_type), {})
        times[kernel] = times.get(kernel, 0.0) + ns
    return found


def _grouped(
    ops: Mapping[Op, Times], common: set[Op], known: Parts | None
) -> dict[tuple[str, str | None] | None, Times]:
    """Return the kernels of each op that both runs have, and of each layer and pass of the others; None is the rest."""
    found: dict[tuple[str, str | None] | None, list[Times]] = {}
    for op, times in ops.items():
        found.setdefault(op if op in common else _layer_of(op, known), []).append(times)
    return {place: _together(each) for place, each in found.items()}


def _layer_of(op: Op, known: Parts | None) -> tuple[str, str | None] | None:
    """Return layer and pass of an op, under a type that no op has."""
    part = (known or {}).get(op)
    layers, passes = (part.layer, part.pass_) if part else (set(), set())
    layer = next(iter(layers)) if len(layers) == 1 else None
    return None if layer is None else (layer, f"layer {next(iter(passes)) if len(passes) == 1 else None}")


def _together(times: Iterable[Times]) -> Times:
    found: Times = {}
    for each in times:
        for kernel, ns in each.items():
            found[kernel] = found.get(kernel, 0.0) + ns
    return found


def _changed(
    op: str | None, before: Times, after: Times, shares: tuple[float, float], number: int
) -> Iterator[Renamed]:
    left, came = before.keys() - after.keys(), after.keys() - before.keys()
    if not left or not came:
        return
    sums = (sum(before[k] for k in left) * shares[0], sum(after[k] for k in came) * shares[1])
    yield Renamed(op, _costliest(left, before), _costliest(came, after), *sums, run=number)


def _costliest(kernels: Iterable[str], times: Times) -> tuple[str, ...]:
    return tuple(sorted(kernels, key=lambda kernel: (-times[kernel], kernel)))
