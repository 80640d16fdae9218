"""Give the kernel launches of a run that names no ops those of a second run of the same program.

TensorFlow names no op of a compiled function to Nsight Systems, and its own profiler records no kernel beside that.
So the second run, recorded by TensorFlow's profiler, lends its ops: by kernel name and order within a step.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from tcprobe.grouping import distinct_rows, ranks, rows_by_group
from tcprobe.readers.arrays import dense
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.profile import Note, Profile, ProfileSource

Key: TypeAlias = tuple[int, str]
"""A GPU, by its place among those that ran kernels, and a kernel's name."""
NO_OP: Final = -1
NAMED: Final = 3
"""Kernels that a note names."""


class _Calls(Struct, frozen=True):
    """The launches of each kernel in each step, in order: rows of `launches`."""

    rows: dict[Key, list[IntArray]]
    gpus: int


def with_ops_of(profile: Profile, other: Profile) -> Profile:
    """Return the profile with the ops of `other`, where kernels and their order say which launch is whose.

    The n-th launch of a kernel in a step is the op's whose launch was the n-th of it in a step of `other`, provided
    that `other` has a step with as many of them, and that all its steps with as many agree on the ops. Other launches
    stay without an op, and a note says of which kernels. A profile that names ops of its own stays as it is.

    Args:
        profile: with `launches`; its steps are those of their iterations, else of the ranges around their calls.
        other: of the same program on as many GPUs, with `op_details`.
    """
    launches, lenders = profile.require("launches"), other.require("launches")
    if not len(launches) or (launches.numbers("op_id") >= 0).any():
        return profile
    if not (lenders.numbers("op_id") >= 0).any():
        return profile.with_notes(_refused("it holds no kernel launch of an op"))
    mine, theirs = _both(profile, other)
    if mine is None or theirs is None:
        return profile.with_notes(_refused("only one of them marks its steps"))
    if mine.gpus != theirs.gpus:
        return profile.with_notes(_refused(f"it ran kernels on {theirs.gpus} GPUs, this one on {mine.gpus}"))
    ops, unclear = _lent(mine, theirs, lenders.numbers("op_id"), len(launches))
    columns: dict[str, tuple[str, ...]] = {"launches": ("op_id",)}
    source = ProfileSource(other.metadata.format, other.metadata.paths, ("op_details",), columns)
    lent = profile.with_tables(other.require("op_details"), launches.with_columns(op_id=ops))
    lent = lent.with_metadata(sources=(*profile.metadata.sources, source))
    return lent.with_notes(*_notes(int(np.count_nonzero(ops >= 0)), len(launches), unclear))


def _both(profile: Profile, other: Profile) -> tuple[_Calls | None, _Calls | None]:
    """Return the calls of both by step; of the whole captures where neither marks steps, None where one does not."""
    pair = profile, other
    steps = [_steps(one) for one in pair]
    if (steps[0] is None) is not (steps[1] is None):
        return None, None
    clock = "launch_ns"
    if any(np.isnan(one.require("launches").numbers(clock)).any() for one in pair):
        clock = "start_ns"
    mine, theirs = (_calls(one.require("launches"), at, clock) for one, at in zip(pair, steps, strict=True))
    return mine, theirs


def _steps(profile: Profile) -> FloatArray | None:
    """Return the step of each launch, NaN for none; None where the profile marks no steps."""
    launches = profile.require("launches")
    stored: FloatArray = launches.numbers("iteration").astype(np.float64)
    if not np.isnan(stored).all():
        return stored
    ranges = profile.require("ranges")
    steps = ranges.take(ranges.names("kind").among("step"))
    starts = np.sort(steps.numbers("start_ns"))
    if not len(starts):
        return None
    place = np.searchsorted(starts, np.nan_to_num(launches.numbers("launch_ns"), nan=-np.inf), side="right") - 1
    return np.where(place >= 0, place, np.nan)


def _calls(launches: Table, steps: FloatArray | None, clock: str) -> _Calls:
    """Group launches by GPU, kernel and step, each group in order of time."""
    kernel, (gpu, gpus) = launches.names("kernel"), dense(launches.numbers("device").astype(np.int64))
    placed = np.arange(len(launches)) if steps is None else np.flatnonzero(~np.isnan(steps))
    step = np.zeros(len(launches), np.int64) if steps is None else np.nan_to_num(steps).astype(np.int64)
    ties = [launches.numbers(name)[placed] for name in ("op_id", "duration_ns", "stream", "start_ns", clock)]
    order = placed[np.lexsort(ties)]
    number = ranks(kernel.names)[kernel.ids]
    (groups, *_), group = distinct_rows(gpu[order], number[order], step[order])
    rows: dict[Key, list[IntArray]] = {}
    for members in rows_by_group(group, len(groups)):
        calls = order[members]
        rows.setdefault((int(gpu[calls[0]]), str(kernel[int(calls[0])])), []).append(calls)
    return _Calls(rows, len(gpus))


def _lent(mine: _Calls, theirs: _Calls, ops: IntArray, count: int) -> tuple[IntArray, dict[str, int]]:
    """Return the op of each launch, and how many launches of which kernel have none for want of a clear one."""
    found = np.full(count, NO_OP, np.int64)
    unclear: dict[str, int] = {}
    for key, steps in mine.rows.items():
        known = _sequences(theirs.rows.get(key, []), ops)
        for rows in steps:
            sequence = known.get(len(rows))
            if sequence is None:
                unclear[key[1]] = unclear.get(key[1], 0) + len(rows)
            else:
                found[rows] = sequence
    return found, unclear


def _sequences(steps: list[IntArray], ops: IntArray) -> dict[int, IntArray | None]:
    """Return the ops that launch a kernel in a step, by how many launches it holds; None where steps disagree."""
    found: dict[int, IntArray | None] = {}
    for rows in steps:
        sequence = ops[rows]
        before = found.setdefault(len(rows), sequence)
        if before is not None and not np.array_equal(before, sequence):
            found[len(rows)] = None
    return found


def _refused(why: str) -> Note:
    return Note("ops-not-borrowed", f"the run recorded by TensorFlow's profiler lends no ops: {why}")


def _notes(lent: int, count: int, unclear: dict[str, int]) -> list[Note]:
    share = f"{lent} of {count} kernel launches ({100 * lent / count:.0f} %)"
    message = (
        f"the ops of {share} are those of a second run, recorded by TensorFlow's profiler and joined by kernel name "
        "and order within a step"
    )
    if not unclear:
        return [Note("ops-borrowed", message, level="note")]
    costly = sorted(unclear.items(), key=lambda item: (-item[1], item[0]))
    names = ", ".join(f"{name} ({number})" for name, number in costly[:NAMED])
    more = f", and {len(costly) - NAMED} more kernels" if len(costly) > NAMED else ""
    why = "the second run has no step in which they were launched as often, or its steps disagree on their ops"
    return [Note("ops-borrowed", f"{message}; without op, as {why}: {names}{more}", level="note")]
