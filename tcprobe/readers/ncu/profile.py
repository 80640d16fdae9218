"""Read one CSV file of Nsight Compute's into a `Profile`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tcprobe.errors import UsageError
from tcprobe.readers.ncu.notes import notes_of
from tcprobe.readers.ncu.refusals import no_launches
from tcprobe.readers.ncu.sheet import read_sheet
from tcprobe.readers.ncu.tables import Launched, counters_table, devices_table, kernels_table
from tcprobe.readers.one_run import few, name_one, newest_first
from tcprobe.schema.profile import Metadata, Profile

_SERIAL: Final = "Nsight Compute runs kernels one at a time, outside the course of a step"
_ABSENT: Final = {
    "launches": _SERIAL,
    "launch_configs": _SERIAL,
    "iterations": _SERIAL,
    "gaps": _SERIAL,
    "step_marks": _SERIAL,
    "op_details": "Nsight Compute names no ops",
    "host_ops": "Nsight Compute records nothing of the host",
    "memory_ops": "Nsight Compute profiles no copies",
    "ranges": "Nsight Compute gives its NVTX ranges no times",
    "kernel_counters": "the file holds no hardware counter",
}


def read_profile(format_name: str, files: Sequence[Path]) -> Profile:
    """Read the one file that was found.

    Args:
        format_name: the reader's name, for the metadata.
        files: what was found.

    Raises:
        UsageError: there are several files.
        InputError: the file is damaged, or holds no launch.
    """
    if len(files) > 1:
        places = newest_first(set(files))
        said = f"{files[0].parent}: {len(files)} files of Nsight Compute, the newest first: "
        raise UsageError(said + few([place.name for place in places]), name_one(places))
    (path,) = files
    sheet = read_sheet(path)
    if not sheet.rows:
        raise no_launches(path, sheet.said)
    launched = Launched.of(sheet)
    counters = counters_table(launched)
    tables = [kernels_table(launched), devices_table(launched), *([] if counters is None else [counters])]
    notes = notes_of(sheet, launched.duration_ns, bool((launched.device < 0).any()))
    metadata = Metadata(format_name, (str(path),), "Nsight Compute", gpu_used=True, notes=notes)
    profile = Profile(metadata).with_tables(*tables)
    return profile.with_absent(**{name: why for name, why in _ABSENT.items() if name not in profile.tables})
