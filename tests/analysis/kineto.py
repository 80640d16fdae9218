"""Read a trace of PyTorch's profiler, as far as tests of steps need it: launches with their grids, and marked steps."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import LAUNCH_CONFIGS, LAUNCHES, RANGES
from tests.support import ROOT

FOLDER = ROOT.parent / "shared" / "samples" / "kineto"


@cache
def read(path: Path) -> Profile:
    """Return launches, as the host called them, and the ranges ``ProfilerStep#N`` as steps."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    timed = [event for event in events if event.get("ph") == "X"]
    calls = {event["args"].get("correlation"): event["ts"] for event in timed if _is(event, "cuda_runtime", "runtime")}
    kernels = [event for event in timed if _is(event, "kernel")]
    marks = [event for event in timed if _is(event, "user_annotation", "operator") and _number(event) is not None]
    origin = min(event["ts"] for event in timed)
    grids: dict[str, int] = {}
    launches = [
        {
            "device": event["args"]["device"], "stream": event["args"]["stream"], "kernel": event["name"], "op_id": -1,
            "start_ns": _ns(event["ts"] - origin), "duration_ns": _ns(event["dur"]),
            "config_id": grids.setdefault(",".join(map(str, event["args"]["grid"])), len(grids)),
            "launch_ns": _ns(calls[at] - origin) if (at := event["args"]["correlation"]) in calls else None,
            "thread": 1,
        }
        for event in kernels
    ]  # fmt: skip
    ranges = [
        {
            "name": event["name"], "kind": "step", "step": _number(event), "thread": 1,
            "start_ns": _ns(event["ts"] - origin), "duration_ns": _ns(event["dur"]),
        }
        for event in marks
    ]  # fmt: skip
    configs = Table.from_rows(LAUNCH_CONFIGS, [{"grid": grid} for grid in grids])
    tables = Table.from_rows(LAUNCHES, launches), configs, Table.from_rows(RANGES, ranges)
    return Profile(Metadata("kineto", gpu_used=True)).with_tables(*tables)


def _is(event: dict[str, Any], *categories: str) -> bool:
    return str(event.get("cat")).lower() in categories


def _number(event: dict[str, Any]) -> int | None:
    name, _, number = str(event["name"]).partition("#")
    return int(number) if name == "ProfilerStep" else None


def _ns(micros: float) -> int:
    return round(micros * 1000)
