"""Classify every launch, in the window and outside it, and build the kernels table of the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import distinct_rows
from tcprobe.analysis.kernels.launches import NO, UNKNOWN, YES, Launched, group_launches
from tcprobe.analysis.kernels.table import classified_kernels, label_ids
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.profile import Profile

_CODES: Final = {"no": NO, "yes": YES, "unknown": UNKNOWN}


def classify_launches(profile: Profile, counted: NDArray[np.bool_]) -> tuple[Table, Launched]:
    """Return the kernels table of the launches that count, and all launches in groups, each with its class.

    A launch that does not count takes the class that its kernel and op have in the window; where they do not occur
    there, they are classified by all launches outside it.

    Args:
        profile: holds `launches` and `op_details`.
        counted: which launches count.
    """
    groups, reported = group_launches(profile, counted), _reported(profile)
    _, label_of = label_ids(profile.require("op_details"))
    found, key = distinct_rows(groups.device, groups.kernel, label_of[groups.op])
    classes = np.full(len(found[0]), -1, np.int8)

    def classified(chosen: NDArray[np.int64]) -> Table:
        table, row = classified_kernels(profile, groups, chosen)
        table = _settled(table, reported)
        uses = table.names("uses_tc")
        classes[key[chosen]] = np.array([_CODES[name] for name in uses.names], np.int8)[uses.ids[row]]
        return table

    kernels = classified(np.flatnonzero(groups.counted))
    classified(np.flatnonzero(classes[key] < 0))
    return kernels, Launched(groups, classes[key])


def _reported(profile: Profile) -> Mapping[str, Value]:
    """Return what the profiler itself says of each kernel name; unknown where it contradicts itself."""
    said: dict[str, Value] = {}
    table = profile.require("kernels")
    for name, verdict in zip(table.values("kernel"), table.values("uses_tc"), strict=True):
        said[str(name)] = verdict if said.get(str(name), verdict) == verdict else "unknown"
    return said


def _settled(kernels: Table, reported: Mapping[str, Value]) -> Table:
    """Take the profiler's own verdict where ours is unknown."""
    if set(reported.values()) <= {"unknown"}:
        return kernels
    columns = {name: kernels.values(name) for name in ("kernel", "uses_tc", "basis", "evidence")}
    for row in range(len(kernels)):
        said = reported.get(str(columns["kernel"][row]), "unknown")
        if columns["uses_tc"][row] == "unknown" and said != "unknown":
            columns["uses_tc"][row], columns["basis"][row] = said, "reported"
            columns["evidence"][row] = "the profiler says so"
    return kernels.with_columns(**columns)
