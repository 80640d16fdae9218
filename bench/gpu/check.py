"""Hold what was recorded against what tcprobe says: every contradiction as a line, and a table launch by launch."""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench.gpu.machine import capability_of
from bench.gpu.steps import LAUNCHES, write
from tcprobe.analysis.kernels.counters import SINCE, judge_counters
from tcprobe.analysis.kernels.verdict import Verdict, classify, precision_of_dtype
from tcprobe.analysis.validity import ENOUGH_COVERAGE_PCT
from tcprobe.hardware import Capability

SHARES: Final = ("gpu_busy_pct", "peak_pct", "tc_kernel_time_pct")
NEAR: Final = 0.1  # a step's length by two clocks, of some steps and of others
FEW: Final = 1.001  # rounding
_SOURCE: Final = re.compile(r"sm__ops_path_tensor\w*_src_([a-z]+\d+)\w*\.sum")


def check(folder: Path) -> tuple[list[str], Counter[str]]:
    """Write comparison.csv; return the contradictions and how many launches had which outcome. OSError, KeyError or
    ValueError where a file of the folder is missing or damaged."""
    capability = capability_of(json.loads((folder / "provenance.json").read_text(encoding="utf-8"))["gpu"])
    done = {name: of for name, of in recorded(folder).items() if of["status"] == "done"}
    counted = [name for name in done if (folder / name / "launches.csv").exists()]
    compared = [row for name in counted for row in compare(folder / name, capability)]
    if compared:
        write(folder / "comparison.csv", list(compared[0]), compared)
    outcomes = Counter(dict.fromkeys(("agreement", "unknown", "unproved", "contradiction"), 0))
    for row in compared:
        outcomes[row["outcome"]] += row["launches"]
    runs = {name: figures(folder / name) | {"batch": of["batch"]} for name, of in done.items() if "batch" in of}
    refused = [f"calibrate: {of['refused']}" for of in done.values() if of.get("refused")]
    kernels = [of_kernel(row) for row in compared if row["outcome"] == "contradiction"]
    cases = [text for name in counted for text in of_cases(folder / name, compared, capability)]
    return [*refused, *of_runs(runs, capability), *dict.fromkeys(kernels), *cases], outcomes


def recorded(folder: Path) -> dict[str, Any]:
    """Return by step what its step.json says."""
    return {
        path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/step.json"))
    }


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table of ours."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compare(step: Path, capability: Capability | None) -> Iterator[dict[str, Any]]:
    """Yield a row for each kernel of each case, by configuration: what counters prove, and what its name says."""
    cases = {row["case"]: row for row in rows_of(step / "cases.csv")}
    groups: dict[tuple[str, ...], list[tuple[dict[str, str], str]]] = defaultdict(list)
    for row in rows_of(step / "launches.csv"):
        values = {name: (float(text), "") for name, text in row.items() if name not in LAUNCHES and text}
        types = {match[1] for name, (value, _) in values.items() if value > 0 and (match := _SOURCE.fullmatch(name))}
        proof = judge_counters(values, capability)
        where = [row[column] for column in ("case", "kernel", "grid", "block")]
        groups[(*where, proof.uses_tc if proof else "", "/".join(sorted(types)))].append(
            (row, proof.evidence if proof else "")
        )
    for (name, kernel, grid, block, uses, counted), launches in groups.items():
        verdict, case = classify(kernel, capability), cases.get(name, {})
        yield {
            "step": step.name, "case": name, "kernel": kernel, "grid": grid, "block": block, "launches": len(launches),
            "dtype": case.get("dtype", ""), "sizes": case.get("sizes", ""), "aligned": case.get("aligned", ""),
            "duration_ns": sum(float(row["duration_ns"] or 0) for row, _ in launches) or "",
            "counters": uses, "counter": launches[0][1], "name": verdict.uses_tc, "rule": verdict.rule or "",
            "counted_precision": counted, "name_precision": verdict.precision or "",
            "outcome": outcome(uses, counted, verdict),
        }  # fmt: skip


def outcome(uses: str, counted: str, verdict: Verdict) -> str:
    """Return how a name's verdict stands to what counters prove, which may be nothing (empty), in use and precision."""
    if not uses or verdict.uses_tc == "unknown":
        return "unknown" if uses else "unproved"
    same_type = not counted or verdict.precision in (None, *counted.split("/"))
    return "agreement" if uses == verdict.uses_tc and same_type else "contradiction"


def of_kernel(row: Mapping[str, Any]) -> str:
    """Return the sentence of a kernel whose name and counters contradict each other."""
    name, counters = (
        f"{row[a]} {row[b]}".strip() for a, b in (("name", "name_precision"), ("counters", "counted_precision"))
    )
    return f"{row['kernel'][:120]}: by its name {name} (rule {row['rule']}), by counters {counters} ({row['counter']})"


def of_cases(step: Path, compared: list[dict[str, Any]], capability: Capability | None) -> Iterator[str]:
    """Yield products in float32 that ran on Tensor Cores, and aligned ones that did not, of dtypes that the GPU has."""
    proved: dict[str, set[str]] = defaultdict(set)
    for row in compared:
        proved[row["case"]].add(row["counters"])
    for case in rows_of(step / "cases.csv"):
        uses, dtype = proved[case["case"]], case["dtype"]
        since = SINCE.get("tf32" if dtype == "tf32" else precision_of_dtype(dtype, "yes") or "")
        has = dtype != "float32" and capability is not None and since is not None and capability >= since
        vector = min(map(int, case["sizes"].split("x")[:3])) < 16
        if case["op"] in ("gemm", "conv") and dtype == "float32" and "yes" in uses:
            yield f"{case['case']}: ran on Tensor Cores, in float32 without TF32"
        if case["op"] in ("gemm", "conv") and has and case["aligned"] == "True" and not vector and uses == {"no"}:
            yield f"{case['case']}: aligned, and ran on no Tensor Core"


def figures(step: Path) -> dict[str, float]:
    """Return the figures of a report by metric; NaN for what it does not know, which no comparison finds wrong."""
    return {row["metric"]: float(row["value"] or "nan") for row in rows_of(step / "summary.csv")}


def of_runs(runs: dict[str, dict[str, float]], capability: Capability | None) -> Iterator[str]:
    """Yield what does not hold that must hold of any correct run of the workload on a GPU."""
    if capability is None:
        return  # a rehearsal
    for name, of in runs.items():
        precision, kernels, used = name.removeprefix("profile-"), of["kernel_time_ns"], of["tc_time_ns"]
        since = SINCE[{"mixed_float16": "fp16", "mixed_bfloat16": "bf16"}.get(precision, "tf32")]
        step, logged = of["step_time_ns"], 1e9 * of["batch"] / (of["throughput"] or math.nan)
        wrong = {
            "no kernel was recorded": not kernels > 0,
            f"kernels took {kernels:.0f} ns of a window of {of['window_ns']:.0f} ns": kernels > of["window_ns"] * FEW,
            f"{of['coverage_pct']:.1f} % of kernel time has a verdict": of["coverage_pct"] < ENOUGH_COVERAGE_PCT,
            f"a step takes {step:.0f} ns, by the workload's own log {logged:.0f} ns": abs(step / logged - 1) > NEAR,
            f"{used:.0f} ns on Tensor Cores, in float32": precision == "float32" and used > 0,
            "nothing ran on Tensor Cores": precision != "float32" and capability >= since and used == 0,
        } | {f"{share} is {of[share]:.1f}": of[share] > 100 for share in SHARES}
        yield from (f"{name}: {text}" for text, holds in wrong.items() if holds)
    flops = {name: of["flops_per_step"] for name, of in runs.items() if of["flops_per_step"] > 0}
    middle = statistics.median(flops.values()) if flops else math.nan
    for name, figure in flops.items():
        if abs(figure / middle - 1) > FEW - 1:
            yield f"{name}: {figure:.0f} FLOP in a step, {middle:.0f} in the middle of all runs"
