"""Group the launches of a profile: those of a group share kernel, op, configuration, GPU and class."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.grouping import Codes, Numbers, count_by, distinct_rows, sum_by
from tcprobe.schema.columns import IntArray, Names, Table
from tcprobe.schema.profile import Profile

NO: Final = 0
YES: Final = 1
UNKNOWN: Final = 2
CLASS_COUNT: Final = 3


class LaunchGroups(Struct, frozen=True):
    """Launches by GPU, kernel, op, configuration, and whether they count."""

    launches: Table  # of the whole capture
    of_launch: Codes  # group of each launch
    names: list[str]  # of the kernels, each once
    device: IntArray  # ordinal of each group's GPU
    kernel: IntArray  # of each group, its place in `names`
    op: IntArray  # of each group, its row of `op_details`; -1 where it has none, or one that is not there
    config: IntArray  # of each group, its row of `launch_configs` as stored
    counted: NDArray[np.bool_]  # whether the figures count its launches
    # calls, sum_ns, min_ns, max_ns: number and time of its launches.
    calls: IntArray
    sum_ns: IntArray
    min_ns: IntArray
    max_ns: IntArray

    def __len__(self) -> int:
        return len(self.device)


class Launched(Struct, frozen=True):
    """Groups of launches, each with its class: NO, YES or UNKNOWN."""

    groups: LaunchGroups
    verdicts: NDArray[np.int8]

    def time_of(self, verdict: int) -> IntArray:
        """Return the time of each group of this class, 0 for the others."""
        return np.where(self.verdicts == verdict, self.groups.sum_ns, 0)


def group_launches(profile: Profile, counted: NDArray[np.bool_] | None = None) -> LaunchGroups:
    """Group the launches of a profile.

    Args:
        profile: holds `launches` and `op_details`.
        counted: which launches the figures count; None: all.
    """
    launches, details = profile.require("launches"), profile.require("op_details")
    duration = launches.numbers("duration_ns")
    names, kernel = _merged(launches.names("kernel"))
    op = _op_ids(launches, details)
    inside = np.ones(len(launches), np.int8) if counted is None else counted.view(np.int8)
    # kernel and op first: they occur in few pairs, so that the tables of possible groups stay small
    columns = (kernel, op, launches.numbers("config_id"), launches.numbers("device"), inside)
    (kernels, ops, configs, devices, counts), group = distinct_rows(*columns)
    count = len(kernels)
    shortest, longest = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(shortest, group, duration)
    np.maximum.at(longest, group, duration)
    figures = count_by(group, count), sum_by(group, duration, count), shortest, longest
    return LaunchGroups(launches, group, names, devices, kernels, ops, configs, counts > 0, *figures)


def _merged(names: Names) -> tuple[list[str], Numbers]:
    """Give equal names one id; NA cannot occur in a kernel column."""
    index: dict[str, int] = {}
    lookup = np.array([index.setdefault(n, len(index)) for n in names.names], dtype=np.int32)
    return list(index), names.ids if len(index) == len(lookup) else lookup[names.ids]


def _op_ids(launches: Table, details: Table) -> IntArray:
    """Return the row of `op_details` of each launch; -1 where it has none, or one that is not there."""
    ids: IntArray = launches.numbers("op_id")
    if not len(ids) or (ids.min() >= -1 and ids.max() < len(details)):
        return ids
    return np.where((ids >= 0) & (ids < len(details)), ids, -1)
