"""The class of every launch, and the kernels table of the window, from one classification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import distinct
from tcprobe.schema.columns import IntArray, Table, Value
from tcprobe.schema.profile import Profile

NO: Final = 0
YES: Final = 1
UNKNOWN: Final = 2
_CODES: Final = {"no": NO, "yes": YES, "unknown": UNKNOWN}

Derive: TypeAlias = Callable[[Profile], Table]
Key: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Launched:
    """The launches that count, with what follows from their kernels.

    Attributes:
        launches: those of the window.
        verdicts: per launch: NO, YES or UNKNOWN.
    """

    launches: Table
    verdicts: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.launches)

    @property
    def duration_ns(self) -> IntArray:
        """Per launch."""
        duration: IntArray = self.launches.numbers("duration_ns")
        return duration

    def of(self, verdict: int) -> IntArray:
        """Return the duration of each launch of this class, 0 for the others."""
        return np.where(self.verdicts == verdict, self.duration_ns, 0)


def derive(profile: Profile, inside: NDArray[np.bool_], derive_kernels: Derive) -> tuple[Table, Launched, Launched]:
    """Return the kernels table of the window, its launches and all launches, every one with its class.

    A launch outside the window takes the class that its kernel and op have inside it; where they do not occur
    there, they are classified over the whole capture.

    Args:
        profile: holds `launches` and `op_details`.
        inside: which launches count.
        derive_kernels: classifies the launches of a profile.
    """
    launches = profile.require("launches")
    reported = _reported(profile)
    if inside.all():
        kernels = _settle(derive_kernels(profile), reported)
        everything = Launched(launches, _verdicts(profile, launches, [kernels]))
        return kernels, everything, everything
    counted = launches.take(inside)
    kernels = _settle(derive_kernels(profile.with_tables(counted)), reported)
    rest = _settle(derive_kernels(profile.with_tables(launches.take(~inside))), reported)
    verdicts = _verdicts(profile, launches, [rest, kernels])
    return kernels, Launched(counted, verdicts[inside]), Launched(launches, verdicts)


def _reported(profile: Profile) -> Mapping[str, Value]:
    """Return what the profiler itself says of each kernel name; unknown where it contradicts itself."""
    said: dict[str, Value] = {}
    table = profile.require("kernels")
    for name, verdict in zip(table.values("kernel"), table.values("uses_tc"), strict=True):
        said[str(name)] = verdict if said.get(str(name), verdict) == verdict else "unknown"
    return said


def _settle(kernels: Table, reported: Mapping[str, Value]) -> Table:
    """Take the profiler's own verdict where ours is unknown."""
    columns = {name: kernels.values(name) for name in ("kernel", "uses_tc", "basis", "evidence")}
    rows = range(len(kernels)) if any(v != "unknown" for v in reported.values()) else range(0)
    for row in rows:
        said = reported.get(str(columns["kernel"][row]), "unknown")
        if columns["uses_tc"][row] == "unknown" and said != "unknown":
            columns["uses_tc"][row], columns["basis"][row] = said, "reported"
            columns["evidence"][row] = "the profiler says so"
    changed = {name: columns[name] for name in ("uses_tc", "basis", "evidence")}
    return Table(kernels.spec, {**kernels.columns, **changed}) if rows else kernels


def _verdicts(profile: Profile, launches: Table, tables: list[Table]) -> NDArray[np.int8]:
    """Return the class of each launch: looked up once for each kernel, op and device that occur together."""
    kernel = launches.names("kernel")
    details = profile.require("op_details")
    devices, device = np.unique(launches.numbers("device"), return_inverse=True)
    names, ops = max(len(kernel.names), 1), len(details) + 1
    keys = (device.ravel().astype(np.int64) * names + kernel.ids) * ops + op_ids(launches, details) + 1
    found, inverse = distinct(keys, max(len(devices), 1) * names * ops)
    classes = _by_key(tables)
    op_names, op_types = details.values("op"), details.values("op_type")
    codes = np.empty(len(found), np.int8)
    for i, key in enumerate(found.tolist()):
        rest, op = divmod(key, ops)
        where, name = divmod(rest, names)
        label = (op_names[op - 1], op_types[op - 1]) if op else (None, None)
        codes[i] = classes.get((int(devices[where]), kernel.names[name], *label), UNKNOWN)
    return codes[inverse]


def op_ids(launches: Table, details: Table) -> IntArray:
    """Return the row of `op_details` of each launch; -1 where it has none, or one that is not there."""
    ids = launches.numbers("op_id")
    return np.where((ids >= 0) & (ids < len(details)), ids, -1).astype(np.int64)


def _by_key(tables: list[Table]) -> dict[Key, int]:
    classes: dict[Key, int] = {}
    for table in tables:
        columns = [table.values(name) for name in ("device", "kernel", "op", "op_type", "uses_tc")]
        for *key, verdict in zip(*columns, strict=True):
            classes[tuple(key)] = _CODES[str(verdict)]
    return classes
