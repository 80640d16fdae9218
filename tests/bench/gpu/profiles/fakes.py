"""Stand in for an interpreter with a framework, and for nsys; and write traces as their profilers do.

``fakes.py PROGRAM ORDERS`` answers orders as `bench/gpu/profiles/steps` does, with two kernels a step;
``fakes.py profile|export ...`` is nsys. Standard library alone.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

GEMM = "nvjet_hsh_128x128_64x4_1x2_h_bz_coopA_TNT"
COPY = "void at::native::copy<4, true>(int)"
DURATIONS = ((GEMM, 12_345), (COPY, 2_000))
"""The kernels of one step, and their time in ns."""


def kineto(path: Path, launches: Sequence[tuple[str, float]], *, kind: str = "kernel") -> None:
    """Write a trace of launches (name, us) in a row, among events of other kinds."""
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "ts": 0, "pid": 0, "args": {"name": "python"}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.0, "dur": 900.5, "args": {}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "pid": 0, "tid": 7, "ts": 1.0, "dur": 5.0},
    ]
    for number, (name, us) in enumerate(launches):
        events.append({"ph": "X", "cat": kind, "name": name, "pid": 0, "tid": 7, "ts": 10.0 * number, "dur": us})
    told = {"schemaVersion": 1, "traceEvents": events, "host_name": "box-17", "traceName": str(path)}
    path.write_text(json.dumps(told, indent=1), encoding="utf-8")


def nsys(path: Path, launches: Sequence[tuple[str, int]]) -> None:
    """Write an export of launches (name, ns); without launches it lacks the table of kernels, as nsys' own."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    database.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
    told = [("PROCESS_0:ENVIRONMENT_VARIABLE", "TOKEN=secret"), ("TRACE", "cuda")]
    database.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", told)
    database.execute("CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
    database.executemany("INSERT INTO PROCESSES VALUES (?, ?, ?)", [(1, 1, "python"), (2, 2, "other-work")])
    if launches:
        columns = "start INTEGER, end INTEGER, demangledName INTEGER, shortName INTEGER, globalPid INTEGER"
        database.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns})")
    for number, (name, ns) in enumerate(launches):
        database.execute("INSERT INTO StringIds VALUES (?, ?)", (number, name))
        row = (1000 * number, 1000 * number + ns, number, None, 1)
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?)", row)
    database.commit()
    database.close()


def answer(orders_path: Path) -> None:
    """Do what `bench/gpu/profiles/steps` does."""
    orders = json.loads(orders_path.read_text(encoding="utf-8"))
    folder = Path(orders["folder"])
    print("a line of the framework's")
    if orders["model"] == "gan" and orders["recorder"] == "plain":
        sys.exit("out of memory")
    told = {"precision": orders["precision"], "notes": [], "step_ns": 300.0, "plain_step_ns": 200.0}
    told |= {"peak_memory_bytes": 1, "on_gpu": True}
    if orders["precision"] == "tf32":
        told = {"unusable": "torch sees no GPU"}
    elif orders["recorder"] == "kineto":
        for steps in (orders["steps"], *orders["short"]):
            (folder / f"trace-{steps}").mkdir()
            launches = [(name, ns / 1000) for name, ns in DURATIONS] * steps
            kineto(folder / f"trace-{steps}" / "trace.json", launches)
    (folder / "answer.json").write_text(json.dumps(told), encoding="utf-8")


def profile(arguments: Sequence[str]) -> None:
    """Do what nsys does: run a command and write a report, exit status 0 whatever came of it; or export a report."""
    verb, *options = arguments
    out = next(a.partition("=")[2] for a in options if a.startswith("--output="))
    if verb == "export":
        os.rename(options[-1], out)  # noqa: PTH104
        return
    command = [a for a in options if not a.startswith("-")]
    subprocess.run(command, check=False)
    steps = int(out.rpartition("trace-")[2].partition("/")[0])
    if "transformer" in Path(command[-1]).read_text(encoding="utf-8"):
        nsys(Path(f"{out}.nsys-rep"), list(DURATIONS) * steps)


if __name__ == "__main__":
    if sys.argv[1] in ("profile", "export"):
        profile(sys.argv[1:])
    else:
        answer(Path(sys.argv[2]))
