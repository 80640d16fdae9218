#!/usr/bin/env python3
"""Stands in for Nsight Compute on a dry run: takes the options of `ncu.py`, runs the program, and invents counters.

It writes in Nsight Compute's own formats, which the samples of ncu 2024.1 show: its report is a JSON file of its own,
which only `--import` reads. Every kernel's name and the device say `fake`. Standard library only.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

from fake_names import FakeKernel, counters_of, kernels_of

FIXED = ("ID", "Process ID", "Process Name", "Host Name")
PUSH_POP = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
START_STOP = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
AFTER = ("Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC")
FLAGS = {"nvtx", "force-overwrite", "csv", "query-metrics"}
SOURCES = ("bf16_dst_fp32", "fp16", "fp64", "fp8", "int1", "int8", "tf32_dst_fp32")
NAMES = (
    "gpu__time_duration",
    *(
        "sm__inst_executed_pipe_tensor" + part
        for part in ("", "_op_dmma", "_op_gmma", "_op_hmma", "_op_hmma_type_hfma2", "_op_imma")
    ),
    *("sm__ops_path_tensor_src_" + source for source in SOURCES),
    "sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_on",
    "sm__pipe_tensor_cycles_active",
)
"""Of GH100, as ncu 2024.1 names them."""


def main() -> int:
    options, program = _options(sys.argv[1:])
    if "query-metrics" in options:
        return _query()
    if "import" in options:
        return _import(options)
    return _profile(options, program)


def _options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    while words and words[0].startswith("--"):
        name = words.pop(0)[2:]
        options[name] = "" if name in FLAGS else words.pop(0)
    return options, words


def _query() -> int:
    print("Device fake (GH100)")
    print("{} {} {} {}".format("-" * 79, "-" * 15, "-" * 15, "-" * 48))
    for row in (("Metric Name", "Metric Type", "Metric Unit", "Metric Description"), *map(_described, NAMES)):
        print("{:<79} {:<15} {:<15} {}".format(*row))
    return 0


def _described(name: str) -> tuple[str, str, str, str]:
    return name, "Counter", _unit(name), "invented"


def _unit(metric: str) -> str:
    if "time" in metric:
        return "nsecond"
    if metric.endswith("_active") and ".pct" in metric:
        return "%"
    return "cycle" if "cycles" in metric else "inst" if "inst_" in metric else ""


def _profile(options: dict[str, str], program: list[str]) -> int:
    process = subprocess.Popen(program)
    print(f"==PROF== Connected to process {process.pid} ({program[0]})", flush=True)
    status = process.wait()
    launches = _launches()
    for number, (_case, kernel) in enumerate(launches):
        print(f'==PROF== Profiling "{kernel.demangled[:40]}" - {number}: 0%....50%....100% - 1 pass')
    print(f"==PROF== Disconnected from process {process.pid}")
    if status:
        print(f"==ERROR== The application returned an error code ({abs(status)}).")
    if not launches:
        print("==WARNING== No kernels were profiled.")
        return 1
    report = options["export"]
    told = {"cases": [case for case, _ in launches], "metrics": options["metrics"].split(",")}
    Path(report).write_text(json.dumps(told), encoding="utf-8")
    print(f"==PROF== Report: {report}")
    return 1 if status else 0


def _launches() -> list[tuple[list[str], FakeKernel]]:
    """Return the cases that the program measured, each with a kernel that it might run."""
    try:
        text = Path(os.environ["TCPROBE_GPU_MARKS"]).read_text(encoding="utf-8")
    except (KeyError, OSError):
        return []
    marks = [json.loads(line) for line in text.splitlines()]
    return [(mark, kernel) for mark in marks for kernel in kernels_of(mark[-1] if mark else "")]


def _import(options: dict[str, str]) -> int:
    report = json.loads(Path(options["import"]).read_text(encoding="utf-8"))
    metrics = tuple(report["metrics"])
    writer = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    header = (*FIXED, PUSH_POP, START_STOP, *AFTER, *metrics)
    writer.writerow(header)
    writer.writerow([""] * (len(header) - len(metrics)) + [_unit(metric) for metric in metrics])
    mangled = options.get("print-kernel-base") == "mangled"
    seen: list[str] = []
    for number, mark in enumerate(report["cases"]):
        kernels = kernels_of(mark[-1] if mark else "")
        kernel = kernels[seen.count(str(mark)) % len(kernels)]
        seen.append(str(mark))
        ranges = "".join(f' "tcprobe:{name}:none:none:none:none:none:none" ' for name in (*mark, "measure"))
        name = kernel.mangled if mangled else kernel.demangled
        fixed = (
            number,
            270270,
            "fake",
            "127.0.0.1",
            "270270 " + ranges,
            "",
            name,
            1,
            7,
            "(128, 1, 1)",
            "(24, 4, 1)",
            0,
            "9.0",
        )
        writer.writerow([*fixed, *counters_of(kernel, metrics).values()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
