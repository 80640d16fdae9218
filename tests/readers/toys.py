"""Two made-up readers, written as new ones would be: one of ranges, one of hardware counters."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from tcprobe.errors import WrongFormat
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import DEVICES, KERNEL_COUNTERS, LAUNCH_CONFIGS, LAUNCHES, MEMORY_OPS, RANGES

COUNTED = "kernel,grid,block,metric,value,unit"


class Ranged:
    """``*.ranges.json``: launches, copies, and the nested ranges of the host around their calls."""

    FORMAT = "ranged"
    WHAT = "*.ranges.json"

    def finds(self, path: Path) -> list[Path]:
        return [path] if path.is_file() and path.match(self.WHAT) else sorted(path.rglob(self.WHAT))

    def read(self, files: list[Path]) -> Profile:
        try:
            held: dict[str, Any] = json.loads(files[0].read_text())
        except ValueError as error:
            raise WrongFormat(files[0], "no JSON", "record it again") from error
        shared: Row = {"device": 0, "stream": 1}
        launches: list[Row] = [
            {
                **shared, "op_id": -1, "config_id": 0, "kernel": kernel, "thread": thread, "launch_ns": called,
                "start_ns": start, "duration_ns": length,
            }
            for kernel, thread, called, start, length in held["launches"]
        ]  # fmt: skip
        copies: list[Row] = [
            {**shared, "kind": "MemcpyH2D", "launch_ns": called, "start_ns": start, "duration_ns": length}
            for called, start, length in held["copies"]
        ]
        names = ("kind", "name", "thread", "start_ns", "duration_ns", "step", "op_type", "dtype", "input_shapes")
        ranges = [dict(zip(names, row, strict=False)) for row in held["ranges"]]
        profile = Profile(Metadata(self.FORMAT, (str(files[0]),), profiler="the toy", host="node1", gpu_used=True))
        return profile.with_tables(
            Table.from_rows(LAUNCHES, launches),
            Table.from_rows(LAUNCH_CONFIGS, [{"grid": "1,1,1", "block": "32,1,1"}]),
            Table.from_rows(MEMORY_OPS, copies),
            Table.from_rows(RANGES, ranges),
            Table.from_rows(DEVICES, [{"device": 0, "state": "active", "tensor_cores": "unknown", **held["gpu"]}]),
        ).with_absent(kernel_counters="the toy counts nothing")


class Counted:
    """``*.csv`` that begins with these columns: hardware counters."""

    FORMAT = "counted"
    WHAT = "a CSV of counters"

    def finds(self, path: Path) -> list[Path]:
        files = [path] if path.is_file() else sorted(path.rglob("*.csv"))
        return [file for file in files if file.read_bytes().startswith(COUNTED.encode())]

    def read(self, files: list[Path]) -> Profile:
        with files[0].open() as file:
            rows: list[Row] = [{**row, "value": float(row["value"]), "launches": 1} for row in csv.DictReader(file)]
        profile = Profile(Metadata(self.FORMAT, (str(files[0]),)))
        return profile.with_tables(Table.from_rows(KERNEL_COUNTERS, rows)).with_absent(launches="it holds sums")


def write_ranged(path: Path, steps: int = 6) -> Path:
    """Write steps of two layers each on one thread, and a backward pass on another."""
    ranges: list[list[Any]] = []
    launches: list[list[Any]] = []
    shapes = json.dumps([[64, 60], [63, 60]])
    for step in range(steps):
        at = 1_000_000 * (step + 1)
        ranges += [
            ["step", f"step {step + 10}", 1, at, 800_000, step + 10],
            ["phase", "forward", 1, at, 300_000],
            ["layer", "critic", 1, at, 300_000],
            ["layer", "dense", 1, at + 10_000, 100_000],
            ["op", "linear", 1, at + 20_000, 50_000, None, "linear", "float16", shapes],
            ["layer", "norm", 1, at + 150_000, 100_000],
            ["op", "AddmmBackward", 2, at + 400_000, 100_000],
        ]
        for kernel, thread, called, length in (
            ("volta_h884gemm_128x64_ldg8_nn", 1, at + 30_000, 40_000),
            ("toy_norm", 1, at + 160_000, 10_000),
            ("volta_sgemm_128x64_nn", 2, at + 450_000, 50_000),
        ):
            launches.append([kernel, thread, called, called + 100_000, length])
    copies = [[1_000_000 * (step + 1) + 5_000, 1_000_000 * (step + 1) + 6_000, 3_000] for step in range(steps)]
    gpu = {"name": "Tesla V100-SXM2-16GB", "name_basis": "reported", "vendor": "Nvidia", "compute_capability": "7.0"}
    path.write_text(json.dumps({"gpu": gpu, "launches": launches, "copies": copies, "ranges": ranges}))
    return path


def write_counted(path: Path, *rows: tuple[str, float]) -> Path:
    """Write rows of (kernel, value of the tensor pipe's instructions); grid and block are not known."""
    lines = [f'"{kernel}",,,sm__inst_executed_pipe_tensor.sum,{value},inst' for kernel, value in rows]
    path.write_text("\n".join([COUNTED, *lines, ""]))
    return path
