"""Check that several XSpaces belong to one run: one session folder, different hosts, recorded at one time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tcprobe.readers.one_run import not_one_run, session_of, several_runs
from tcprobe.readers.protobuf import Buffer
from tcprobe.readers.xspace.gpu import plane_stats
from tcprobe.readers.xspace.tables import HostFile
from tcprobe.readers.xspace.wire import Space, string_map

# The hosts of a run start their profilers at one step, or when one remote request reaches them.
FARTHEST_NS: Final = 300 * 10**9
ENVIRONMENT: Final = "Task Environment"
KIND: Final = ("device_vendor", "compute_cap_major", "compute_cap_minor")


def check_place(files: Sequence[Path]) -> None:
    """Refuse several files that do not lie together in one folder ``plugins/profile/SESSION``.

    Raises:
        UsageError: lists the folders or files, the newest first.
    """
    if len(files) < 2:
        return
    if len({file.parent for file in files}) > 1:
        raise several_runs(Path(os.path.commonpath(files)), files)
    if session_of(files) is None:
        raise not_one_run(files, "the folder is not plugins/profile/SESSION")


def check_hosts(parts: Sequence[HostFile]) -> None:
    """Refuse files of one session folder that cannot be the hosts of one run.

    Raises:
        UsageError: two are of one host, their GPUs differ, or they were recorded minutes apart.
    """
    why = next(_differences(parts), None) if len(parts) > 1 else None
    if why:
        raise not_one_run([part.path for part in parts], why)


def _differences(parts: Sequence[HostFile]) -> Iterator[str]:
    hosts = [host for part in parts for host in part.space.hosts or [part.path.name]]
    if twice := next((host for host in hosts if hosts.count(host) > 1), None):
        yield f"two are of host {twice}"
    started = [part.started_ns for part in parts if part.started_ns is not None]
    if started and max(started) - min(started) > FARTHEST_NS:
        yield f"they were recorded {(max(started) - min(started)) // 60_000_000_000} minutes apart"
    kinds = {tuple(gpu.stats.get(key) for key in KIND) for part in parts for gpu in part.gpus}
    if len(kinds) > 1:
        yield "their GPUs differ"


def started_ns(data: Buffer, space: Space) -> int | None:
    """Return when the capture began, in ns since the epoch; None where the file does not say (until TF 2.15)."""
    for plane in space.planes:
        if plane.name == ENVIRONMENT:
            found = plane_stats(data, plane.stats, string_map(data, plane.stat_metadata)).get("profile_start_time")
            return found if isinstance(found, int) else None
    return None
