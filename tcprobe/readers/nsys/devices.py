"""The GPUs of a recording: which one each process means by an ordinal, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.readers.arrays import combine
from tcprobe.readers.limits import MOST_DEVICES
from tcprobe.readers.nsys.columns import Ints
from tcprobe.readers.nsys.launches import Ran
from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.tables import DEVICES

GPUS: Final = "TARGET_INFO_GPU"
CUDA_DEVICES: Final = "TARGET_INFO_CUDA_DEVICE"
_FIGURES: Final = {
    "sm_count": ("smCount", 1),
    "clock_khz": ("clockRate", 1000),
    "memory_bytes": ("totalMemory", 1),
    "bandwidth_bytes_per_s": ("memoryBandwidth", 1),
}


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs.

    Attributes:
        of: (process id, ordinal in that process) -> the GPU's number on the machine, where the file says.
        told: number -> columns of `devices`.
    """

    of: Mapping[tuple[int, int], int]
    told: Mapping[int, dict[str, Value]]

    def numbers(self, ran: Ran) -> Ints:
        """Return the number of the GPU that ran each kernel or copy."""
        if not self.of or not len(ran):
            return ran.rows["deviceId"]
        process, device = ran.rows["globalPid"], ran.rows["deviceId"]
        codes, first = combine([process, device])
        found = zip((process[first] >> 24 & 0xFFFFFF).tolist(), device[first].tolist(), strict=True)
        return np.array([self.of.get(pair, pair[1]) for pair in found], np.int64)[codes]

    def table(self, used: set[int]) -> Table:
        """Return `devices`: those that ran kernels; where none did, those that the file describes.

        Other processes, which the recording does not follow, may use the rest of the machine's GPUs.
        """
        rows = [self._row(number, number in used) for number in sorted(used or set(self.told))]
        return Table.from_rows(DEVICES, rows)

    def _row(self, number: int, active: bool) -> dict[str, Value]:
        told = self.told.get(number, {})
        state: dict[str, Value] = {"device": number, "tensor_cores": "unknown", "state": "active" if active else "idle"}
        return {**state, "vendor": "Nvidia", "name_basis": "reported" if told.get("name") else None, **told}


def read_gpus(database: Database) -> Gpus:
    """Read what the file says of the GPUs; older exports know only names, cut-out ones nothing."""
    told = {number: row for number, row in _described(database) if 0 <= number < MOST_DEVICES}
    of = {}
    for pid, ordinal, number in database.rows(CUDA_DEVICES, "pid", "cudaId", "gpuId"):
        if isinstance(pid, int) and isinstance(ordinal, int) and isinstance(number, int) and 0 <= number < MOST_DEVICES:
            of[pid & 0xFFFFFF, ordinal] = number
    return Gpus(of, told)


def _described(database: Database) -> list[tuple[int, dict[str, Value]]]:
    """Return what is said of each GPU, by the number that `Gpus.numbers` gives it."""
    wanted = ["id", "cuDevice", "name", "computeMajor", "computeMinor", *(column for column, _ in _FIGURES.values())]
    columns = [name for name in wanted if database.has(GPUS, name)]
    rows = [dict(zip(columns, row, strict=True)) for row in database.rows(GPUS, *columns)] if columns else []
    by_ordinal = not database.has(CUDA_DEVICES) and all(row.get("cuDevice") is not None for row in rows)
    numbers = [row.get("cuDevice" if by_ordinal else "id") for row in rows]
    return [(n, _columns(row)) for n, row in zip(numbers, rows, strict=True) if isinstance(n, int)]


def _columns(row: Mapping[str, Value]) -> dict[str, Value]:
    major, minor = row.get("computeMajor"), row.get("computeMinor")
    capability = f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) and major > 0 else None
    name = row.get("name")
    figures: dict[str, Value] = {ours: _count(row.get(column), by) for ours, (column, by) in _FIGURES.items()}
    return {**figures, "name": name if isinstance(name, str) and name else None, "compute_capability": capability}


def _count(value: Value, by: int) -> int | None:
    return value // by if isinstance(value, int) and 0 < value < 2**53 else None
