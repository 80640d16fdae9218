"""SQLite exports of Nsight Systems of any schema from 2.9.1 to 3.25.0, made of what a test says was recorded.

The columns are those of real exports of 3.0.0 to 3.25.0; 2.9.1 is written after what is published of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

PRODUCTS: Final = {
    "2.9.1": "2022.1.3.3",
    "3.0.0": "2022.4.2.1",
    "3.1.2": "2023.1.2.43",
    "3.1.7": "2023.2.3.1004",
    "3.7.2": "2023.4.4.54",
    "3.16.1": "2024.6.2.225",
    "3.24.14": "2026.1.1.204",
    "3.25.0": "2026.2.1.210",
}
"""Schema -> the version of nsys that writes it."""
PID: Final = 4711
OTHER_PID: Final = 4712
TID: Final = 4711
_HOST: Final = 1 << 48

_TIMES: Final = "start INTEGER NOT NULL, end INTEGER NOT NULL"
_ON_GPU: Final = f"{_TIMES}, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL"
_LAUNCHED: Final = "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER"


def global_tid(pid: int = PID, tid: int = TID) -> int:
    """Return how nsys writes a thread."""
    return _HOST | pid << 24 | tid


def _tables(version: tuple[int, ...]) -> dict[str, str]:
    """Return the columns of each table that a schema can have."""
    green = ", greenContextId INTEGER" if version >= (3, 7) else ""
    numbers = "uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER"
    graph = ", graphId INTEGER, clusterX INTEGER, clusterY INTEGER, clusterZ INTEGER" if version >= (3, 24) else ""
    tensor = ", tensorSizeMinusOneElements TEXT NOT NULL DEFAULT ''" if version >= (3, 24) else ""
    grid = ", ".join(f"{name} INTEGER NOT NULL" for name in ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"))
    pairs = "name TEXT NOT NULL, value TEXT"
    tables = {
        "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
        "CUPTI_ACTIVITY_KIND_KERNEL": f"{_ON_GPU}{green}, {_LAUNCHED}, demangledName INTEGER NOT NULL, "
        "shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, "
        f"registersPerThread INTEGER NOT NULL, {grid}, staticSharedMemory INTEGER NOT NULL, "
        "dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, "
        "localMemoryTotal INTEGER NOT NULL, "
        "gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER"
        f"{graph}{tensor}",
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_ON_GPU}{green}, {_LAUNCHED}, bytes INTEGER NOT NULL, "
        "copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER",
        "CUPTI_ACTIVITY_KIND_MEMSET": f"{_ON_GPU}{green}, {_LAUNCHED}, value INTEGER NOT NULL, bytes INTEGER NOT NULL, "
        "graphNodeId INTEGER, memKind INTEGER",
        "CUPTI_ACTIVITY_KIND_RUNTIME": f"{_TIMES}, eventClass INTEGER NOT NULL, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_ON_GPU}{green}, {_LAUNCHED}, graphId INTEGER NOT NULL, "
        "graphExecId INTEGER NOT NULL",
        "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
        "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, "
        f"domainId INTEGER, {numbers}, floatValue REAL, jsonTextId INTEGER, jsonText TEXT"
        + (", binaryData TEXT" if version >= (3, 16) else ""),
        "PROFILER_OVERHEAD": f"{_TIMES}, globalTid INTEGER, nameId INTEGER, returnValue INTEGER",
        "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
        "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
        "TARGET_INFO_GPU": "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, "
        "totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, uuid TEXT, chipName TEXT, "
        "cuDevice INTEGER, computeMajor INTEGER, computeMinor INTEGER",
        "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, "
        "nameEnum INTEGER NOT NULL, value TEXT NOT NULL",
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
        "META_DATA_EXPORT" if version >= (3, 7) else "EXPORT_META_DATA": pairs,
    }
    if version >= (3, 7):
        tables["META_DATA_CAPTURE"] = pairs
        tables["DIAGNOSTIC_EVENT"] = (
            "timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL, source INTEGER NOT NULL, "
            "severity INTEGER NOT NULL, text TEXT NOT NULL, globalPid INTEGER"
        )
    if version >= (3, 24):
        tables["TARGET_INFO_CUDA_DEVICE"] = (
            "gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT NOT NULL, "
            "numMultiprocessors INTEGER NOT NULL"
        )
    if version >= (3,):
        kernel = "KRENEL" if version < (3, 1, 7) else "KERNEL"
        tables[f"ENUM_CUDA_{kernel}_LAUNCH_TYPE"] = "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT"
    return tables


class Made:
    """A recording, told event by event; times in ns.

    Args:
        version: of the schema, a key of `PRODUCTS`.
        inline: write the text of ranges into their rows; else into StringIds, as for registered strings.
    """

    def __init__(self, version: str = "3.25.0", inline: bool = True) -> None:
        self.version = version
        self.inline = inline
        self.columns = _tables(tuple(map(int, version.split("."))))
        self.rows: dict[str, list[Mapping[str, Any]]] = {}
        self._strings: dict[str, int] = {}
        self._domains: dict[tuple[str, int], int] = {}
        self._correlation = 100
        exported = "META_DATA_EXPORT" if "META_DATA_EXPORT" in self.columns else "EXPORT_META_DATA"
        for name, value in (("PRODUCT_NAME", "NVIDIA Nsight Systems"), ("PRODUCT_VERSION", PRODUCTS[version])):
            self.add(exported, name=f"EXPORT_{name}", value=value)
        self.add(exported, name="EXPORT_SCHEMA_VERSION", value=version)

    def add(self, table: str, **row: Any) -> None:
        """Add a row; columns that the schema lacks are left out when it is written."""
        self.rows.setdefault(table, []).append(row)

    def string(self, text: str) -> int:
        """Return the id of a text in StringIds."""
        return self._strings.setdefault(text, len(self._strings) + 1)

    def call(
        self, start: int, end: int, correlation: int, pid: int = PID, tid: int = TID, name: str = "cudaLaunchKernel"
    ) -> None:
        """Add a call of the CUDA API."""
        thread = global_tid(pid, tid)
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, eventClass=0, globalTid=thread,
            correlationId=correlation, nameId=self.string(name), returnValue=0,
        )  # fmt: skip

    def kernel(self, name: str, start: int, end: int, correlation: int | None = None, **row: Any) -> None:
        """Add a kernel without the record of its launch; `pid` and columns of the table may be given."""
        number = self.string(name)
        given = {f"{at}{axis}": 1 for at in ("grid", "block") for axis in "XYZ"}
        zero = ("localMemoryPerThread", "localMemoryTotal", "gridId", "staticSharedMemory", "dynamicSharedMemory")
        given |= dict.fromkeys(zero, 0) | {"registersPerThread": 32, "demangledName": number, "shortName": number}
        self._on_gpu("CUPTI_ACTIVITY_KIND_KERNEL", start, end, correlation, {**given, **row})

    def launch(self, name: str, at: int, start: int, end: int, pid: int = PID, tid: int = TID, **row: Any) -> int:
        """Add a kernel and the call that launched it at `at`; return their correlation id."""
        self._correlation += 1
        correlation = int(row.pop("correlation", self._correlation))
        self.call(at, at + 5, correlation, pid, tid)
        self.kernel(name, start, end, correlation, pid=pid, **row)
        return correlation

    def copy(self, kind: int, size: int, start: int, end: int, correlation: int | None = None, **row: Any) -> None:
        """Add a copy; `kind` as in ENUM_CUDA_MEMCPY_OPER: 1 to the GPU, 2 from it, 8 on it, 10 between GPUs."""
        self._on_gpu("CUPTI_ACTIVITY_KIND_MEMCPY", start, end, correlation, {"bytes": size, "copyKind": kind, **row})

    def set(self, size: int, start: int, end: int, correlation: int | None = None, **row: Any) -> None:
        """Add a memory set."""
        self._on_gpu("CUPTI_ACTIVITY_KIND_MEMSET", start, end, correlation, {"bytes": size, "value": 0, **row})

    def graph(self, number: int, start: int, end: int, correlation: int | None = None, **row: Any) -> None:
        """Add the launch of a CUDA graph of which only the whole was recorded."""
        given = {"graphId": number, "graphExecId": number, **row}
        self._on_gpu("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start, end, correlation, given)

    def _on_gpu(self, table: str, start: int, end: int, correlation: int | None, row: dict[str, Any]) -> None:
        process = global_tid(row.pop("pid", PID), 0)
        fixed = {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": correlation, "globalPid": process}
        self.add(table, **{**fixed, "start": start, "end": end, **row})

    def range(
        self, text: str, start: int, end: int | None, domain: str | None = None, pid: int = PID, tid: int = TID,
        **row: Any,
    ) -> None:  # fmt: skip
        """Add a push/pop range; ``eventType=60`` makes it a start/end one, ``endGlobalTid`` says where it ended."""
        number = self._domain(domain, pid) if domain is not None else 0
        named = {"text": text} if self.inline else {"textId": self.string(text)}
        given = {"start": start, "end": end, "eventType": 59, "globalTid": global_tid(pid, tid), "domainId": number}
        self.add("NVTX_EVENTS", **{**given, **named, **row})

    def _domain(self, domain: str, pid: int) -> int:
        if (domain, pid) not in self._domains:
            self._domains[domain, pid] = sum(owner == pid for _, owner in self._domains) + 1
            row = {"start": 0, "eventType": 75, "text": domain, "globalTid": global_tid(pid, pid)}
            self.add("NVTX_EVENTS", **row, domainId=self._domains[domain, pid])
        return self._domains[domain, pid]

    def thread(self, name: str, pid: int = PID, tid: int = TID) -> None:
        """Name a thread."""
        self.add("ThreadNames", nameId=self.string(name), priority=0, globalTid=global_tid(pid, tid))

    def gpu(self, number: int, name: str | None, **row: Any) -> None:
        """Describe a GPU; columns of TARGET_INFO_GPU."""
        self.add("TARGET_INFO_GPU", vmId=_HOST, id=number, name=name, **row)

    def cuda_device(self, number: int, ordinal: int, pid: int = PID) -> None:
        """Say which GPU a process means by an ordinal (from 3.24 on)."""
        self.add("TARGET_INFO_CUDA_DEVICE", gpuId=number, cudaId=ordinal, pid=pid, uuid="", numMultiprocessors=1)

    def environment(self, name: str, value: str | bytes) -> None:
        """Add a property of the machine."""
        self.add(
            "TARGET_INFO_SYSTEM_ENV", globalVid=_HOST, devStateName="Local (CLI)", name=name, nameEnum=0, value=value
        )

    def diagnostic(self, severity: int, text: str) -> None:
        """Add what nsys says of the recording (from 3.7 on): 1 for information, 2 for a warning, 3 for an error."""
        self.add("DIAGNOSTIC_EVENT", timestamp=0, timestampType=1, source=1, severity=severity, text=text)

    def overhead(self, name: str, start: int, end: int, tid: int = TID) -> None:
        """Add time that the profiler itself took."""
        self.add("PROFILER_OVERHEAD", start=start, end=end, globalTid=global_tid(PID, tid), nameId=self.string(name))

    def captured(self, name: str, value: str) -> None:
        """Add a setting of the recording (from 3.7 on)."""
        self.add("META_DATA_CAPTURE", name=name, value=value)

    def write(self, path: Path, lazy: bool = True) -> Path:
        """Write the database; `lazy` leaves out tables without rows, as nsys does, but never StringIds."""
        self.rows["StringIds"] = [{"id": number, "value": text} for text, number in self._strings.items()]
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, columns in self.columns.items():
                if table in self.rows or not lazy:
                    connection.execute(f"CREATE TABLE {table} ({columns})")
                    self._fill(connection, table)
        return path

    def _fill(self, connection: sqlite3.Connection, table: str) -> None:
        known = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for row in self.rows.get(table, ()):
            given = {name: value for name, value in row.items() if name in known}
            places = ", ".join("?" * len(given))
            listed = ", ".join(f"[{name}]" for name in given)
            connection.execute(f"INSERT INTO {table} ({listed}) VALUES ({places})", list(given.values()))


def small(version: str = "3.25.0", inline: bool = True) -> Made:
    """Return a recording of two steps with a GEMM and an elementwise kernel each, and an input copy before them."""
    made = Made(version, inline)
    made.gpu(0, "NVIDIA H100 80GB HBM3", smCount=132, computeMajor=9, computeMinor=0, cuDevice=0)
    for step in range(2):
        at = 1_000_000 * step
        made.range(f"ProfilerStep#{step}", at, at + 900_000)
        made.range("aten::mm", at + 100_000, at + 200_000)
        gemm = made.launch("nvjet_tst_128x128_64x6_2x1_v_bz_TNT", at + 110_000, at + 150_000, at + 450_000, gridX=132)
        made.launch("vectorized_elementwise_kernel", at + 210_000, at + 450_000, at + 550_000, blockX=128)
        made.call(at + 20_000, at + 30_000, gemm + 1000, name="cudaMemcpyAsync")
        made.copy(1, 4096, at + 40_000, at + 60_000, gemm + 1000)
    return made
