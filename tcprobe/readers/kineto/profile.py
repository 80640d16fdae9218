"""One trace of PyTorch's profiler as a `Profile`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from tcprobe.errors import EmptyInput
from tcprobe.gemm.torch import multiplies
from tcprobe.readers.arrays import Ints, combine
from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.kineto.columns import Part, Recording, calls_of, read_messages, read_recording
from tcprobe.readers.kineto.counters import Counts, read_counters
from tcprobe.readers.kineto.ranges import host_events, host_ops, ranges_of
from tcprobe.readers.rows import gpu_row, named_kernels
from tcprobe.schema import tables as contract
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.profile import Metadata, Note, Profile, Trait

_COPIES: Final = {"HtoD": "MemcpyH2D", "DtoH": "MemcpyD2H", "DtoD": "MemcpyD2D", "PtoP": "MemcpyP2P"}
_ABSENT: Final = {
    "launches": "the trace holds no kernels",
    "launch_configs": "the trace holds no kernels",
    "memory_ops": "the trace holds no copies",
    "ranges": "the trace holds no op around a launch, and no step",
    "devices": "the trace names no GPU",
    "op_details": "the trace holds no op around a launch",
    "kernel_counters": "the trace holds no hardware counter of a kernel",
}


def read_trace(format_: str, path: Path) -> Profile:
    """Read one trace.

    Times count from its first event. Of the shared memory of a kernel Kineto writes the sum of both kinds, which
    stands as dynamic; its occupancy is an estimate of what was achieved, and is left out.

    Raises:
        EmptyInput: it holds neither kernels nor ops.
        InputError: it cannot be read, is no trace, is cut off or damaged.
    """
    recording = read_recording(path)
    ran, parts = _ran(recording.parts["kernels"]), recording.parts
    copies, calls = _ran(parts["memory"]), parts["calls"]
    counts = read_counters(recording.counted, ran)
    if not ran.rows and not parts["ops"].rows and not counts.launches:
        raise EmptyInput(path, "holds neither kernels nor ops", "record with activities=[CPU, CUDA]")
    called = calls_of(calls, ran)
    launching = calls.take(np.unique(called[called >= 0]))
    if not ran.rows:  # what the host multiplies counts in place of kernels
        launching = parts["ops"].take(parts["ops"].texts["name"].each(multiplies, False))
    ranges = ranges_of(parts, launching)
    made = [*_launched(ran, called, calls), _memory(copies, calls), ranges.table(), _threads(recording)]
    made += [host_ops(ranges), host_events(parts, ran, ranges), read_messages(ran)]
    made += [_devices(recording, ran, counts.devices), *counts.tables]
    tables = {table.spec.name: table for table in made if len(table)}
    absent = {name: why for name, why in _ABSENT.items() if name not in tables}
    traits = frozenset[Trait]({"serialises_kernels"} if counts.launches else ())
    profile = Profile(_metadata(format_, recording, ran, counts), tables, absent, traits)
    return profile.with_notes(_mislabelled(ranges.mislabelled)) if ranges.mislabelled else profile


def _metadata(format_: str, recording: Recording, ran: Part, counts: Counts) -> Metadata:
    distributed = recording.beside.distributed
    rank = distributed.get("rank") if isinstance(distributed, dict) else None
    return Metadata(
        format_,
        (str(recording.path),),
        profiler="PyTorch profiler (Kineto)",
        framework="pytorch",
        rank=rank if isinstance(rank, int) and 0 <= rank < 1 << 31 else None,
        gpu_used=True if ran.rows or counts.launches else None if recording.parts["calls"].rows else False,
        notes=tuple(_notes(recording, ran, counts)),
    )


def _notes(recording: Recording, ran: Part, counts: Counts) -> Iterator[Note]:
    parts = recording.parts
    if counts.launches:
        message = f"CUPTI counted {counts.launches:,} launches one by one: times of steps mean nothing"
        lay = f"record another trace without profiler_metrics, and: tcprobe report IT --counters {recording.path.name}"
        if ran.rows:
            yield Note("counted-one-by-one", message, lay, "note")
        else:
            yield Note("counters-alone", f"{message}, and how long a kernel ran is not recorded", lay)
    elif not ran.rows and (calls := parts["calls"].rows):
        message = f"the trace holds no kernels, but {calls:,} calls of CUDA: the GPU was not recorded"
        yield Note("no-kernels", message, "record with activities=[CPU, CUDA], and see that CUPTI may be used", "error")
    if ran.rows and not recording.beside.properties:
        message = "the trace has no deviceProperties: nothing in it names the GPU"
        yield Note("gpu-not-named", message, level="note")
    if ran.rows and not parts["ops"].rows:
        message = "the trace holds no ops: kernels belong to no op or layer"
        yield Note("no-ops", message, "record with activities=[CPU, CUDA]")
    elif ran.rows and not any(parts["ops"].texts["dims"].names):
        message = "shapes of ops were not recorded: sizes, FLOPs and alignment are unknown"
        yield Note("no-shapes", message, "record with record_shapes=True", "note")
    if odd := sum(part.odd for part in (*parts.values(), ran)):
        yield Note("events-odd", f"{odd:,} events have times or a GPU that cannot be, and are not counted")


def _mislabelled(ops: int) -> Note:
    message = (
        f"the modules of {ops:,} ops of TorchScript are not told: after a backward pass on the same thread PyTorch "
        "names others than those that ran"
    )
    return Note("modules-mislabelled", message, "record a step by itself, or the model without TorchScript", "note")


def _ran(part: Part) -> Part:
    """Leave out what ran on no GPU that can be."""
    device = part.numbers["device"]
    sane = (device >= 0) & (device < MOST_DEVICES)
    kept = part if sane.all() else part.take(sane)
    kept.odd = int(np.count_nonzero(~sane))
    return kept


def _where(part: Part) -> dict[str, Any]:
    return {
        "device": part.numbers["device"].astype(np.int64),
        "stream": np.nan_to_num(part.numbers["stream"], nan=-1).astype(np.int64),
        "start_ns": part.start,
        "duration_ns": part.end - part.start,
    }


def _launched(ran: Part, called: Ints, calls: Part) -> Iterator[Table]:
    numbers, texts = ran.numbers, ran.texts
    keys = [np.nan_to_num(numbers[name], nan=-1) for name in ("registers", "shared")]
    config, first = combine([*keys, texts["grid"].ids, texts["block"].ids])
    yield Table(
        contract.LAUNCH_CONFIGS,
        {
            "registers": numbers["registers"][first],
            "dynamic_shared_bytes": numbers["shared"][first],
            "grid": texts["grid"].take(first),
            "block": texts["block"].take(first),
        },
    )
    thread = np.append(calls.thread, -1)[called]
    yield Table(
        contract.LAUNCHES,
        {
            **_where(ran),
            "kernel": named_kernels(texts["name"]),
            "op_id": np.full(ran.rows, -1, np.int64),
            "config_id": config,
            "correlation_id": np.where(numbers["correlation"] > 0, numbers["correlation"], np.nan),
            "launch_ns": np.append(calls.start.astype(np.float64), np.nan)[called],
            "thread": np.where(thread < 0, np.nan, thread),
            "cuda_graph": np.where(numbers["graph"] > 0, numbers["graph"], np.nan),
        },
    )


def _memory(part: Part, calls: Part) -> Table:
    kinds = part.texts["name"].map(lambda name: next((k for mark, k in _COPIES.items() if mark in name), _other(name)))
    columns = {
        "kind": kinds,
        "size_bytes": part.numbers["size"],
        "launch_ns": np.append(calls.start.astype(np.float64), np.nan)[calls_of(calls, part)],
    }
    return Table(contract.MEMORY_OPS, {**_where(part), **columns})


def _other(name: str) -> str:
    return "Memset" if name.startswith("Memset") else "other"


def _threads(recording: Recording) -> Table:
    processes = {process: place for place, process in enumerate(dict.fromkeys(p for p, _ in recording.threads))}
    numbers = [processes[process] for process, _ in recording.threads]
    return Table(contract.THREADS, {"thread": np.arange(len(numbers)), "process": np.array(numbers, np.int64)})


def _devices(recording: Recording, ran: Part, counted: tuple[int, ...]) -> Table:
    properties = recording.beside.properties
    given = [one for one in (properties if isinstance(properties, list) else []) if isinstance(one, dict)]
    described = {one["id"]: one for one in given if isinstance(one.get("id"), int)}
    used = sorted({*map(int, np.unique(ran.numbers["device"]).tolist()), *counted})
    rows: list[dict[str, Value]] = []
    for device in used:
        one = described.get(device, {})
        major, minor = one.get("computeMajor"), one.get("computeMinor")
        name = one.get("name")
        rows.append(
            {
                **gpu_row(device, name if isinstance(name, str) else None, ran=True),
                "sm_count": _count(one.get("numSms")),
                "memory_bytes": _count(one.get("totalGlobalMem")),
                "compute_capability": f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else None,
            }
        )
    return Table.from_rows(contract.DEVICES, rows)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < 1 << 53 else None
