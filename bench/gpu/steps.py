"""The steps of a recording: each a program with a time limit, and what of its results is kept in its folder."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.gpu.cases import Case, batches, plan
from bench.gpu.machine import Failed, Machine, last_line, run
from tcprobe.errors import InputError
from tcprobe.readers.ncu.sheet import read_sheet
from tcprobe.tensor_metrics import DURATION, tensor_metrics
from workloads.train_gan import SIZES

DRY_BATCH: Final = 4
PRECISIONS: Final = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
CASES: Final = ("case", "op", "pass", "dtype", "kind", "sizes", "aligned", "status")
LAUNCHES: Final = ("case", "kernel", "grid", "block", "duration_ns")
OPS: Final = Path(__file__).with_name("ops.py")
QUIET: Final = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": "--xla_gpu_enable_command_buffer="}
"""For JAX: Nsight Compute saves what a kernel may write, and takes a CUDA graph for one kernel."""
TRACES: Final = {"jax": ".xplane.pb", "torch": ".json"}
TRACED: Final = (("bfloat16", False), ("bfloat16", True), ("tf32", False), ("float32", False))
RANGE: Final = re.compile(r"case=([\w-]+)")


class Step(NamedTuple):
    """One thing to record: the name of its folder, the longest that it may take, what fills the folder or raises Failed
    and returns what `step.json` says besides, and why it cannot be done here (None where nothing is missing)."""

    name: str
    limit_s: float
    record: Callable[[Path, float], dict[str, Any]]
    lacking: str | None = None


def steps(machine: Machine, dry: bool) -> Iterator[Step]:
    """Yield all steps, those that need no counters first."""
    first = next(iter(machine.pythons), "")
    lacking = None if first else "PyTorch, TensorFlow and JAX are missing: --python names an interpreter that has one"
    yield Step("calibrate", 120 if dry else 420, partial(calibrate, machine, first, dry), lacking)
    lacking = None if "tensorflow" in machine.pythons else "TensorFlow is missing: --python names an interpreter"
    for precision in PRECISIONS:
        yield Step(f"profile-{precision}", 300, partial(profile, machine, precision, dry), lacking)
    for framework, suffix in TRACES.items():
        lacking = None if framework in machine.pythons else f"{framework} is missing: --python names an interpreter"
        lacking = "there is no GPU to trace" if dry and lacking is None else lacking
        for precision, odd in TRACED:
            name = f"trace-{framework}-{precision}{'-odd' * odd}"
            yield Step(name, 120, partial(trace, machine, framework, suffix, precision, odd), lacking)
    through = next((name for name in ("torch", "jax") if name in machine.pythons), "")
    lacking = None if through else "PyTorch and JAX are missing: --python names an interpreter that has one"
    if through and not dry and machine.ncu is None:
        lacking = "Nsight Compute (ncu) is not on the PATH nor in CUDA's folders: it comes with the CUDA Toolkit"
    cases = dict.fromkeys(case.small() if dry else case for case in plan())
    for name, batch in batches(list(cases)):
        yield Step(f"classify-{name}", 60 + 10 * len(batch), partial(classify, machine, through, batch, dry), lacking)


def tcprobe(words: Sequence[str], seconds: float, folder: Path) -> int:
    """Run tcprobe with a configuration of its own: constants of the user are neither read nor replaced."""
    command = [sys.executable, "-m", "tcprobe", *words]
    return run(command, seconds, folder / "log.txt", XDG_CONFIG_HOME=str(folder / "config"))


def calibrate(machine: Machine, framework: str, dry: bool, folder: Path, seconds: float) -> dict[str, Any]:
    """Keep what `tcprobe calibrate` measured (raw.csv), its constants, and what it says where it refuses them."""
    words = ["--framework", framework, "--python", machine.pythons[framework], "-o", str(folder / "raw.csv")]
    code = tcprobe(["calibrate", *words, *(["--dry-run"] if dry else [])], seconds, folder)
    if not (folder / "raw.csv").exists():
        raise Failed(last_line(folder / "log.txt"))
    for path in folder.glob("config/**/*.json"):
        shutil.copyfile(path, folder / "constants.json")
    return {"framework": framework, "refused": last_line(folder / "log.txt") if code else None}


def profile(machine: Machine, precision: str, dry: bool, folder: Path, seconds: float) -> dict[str, Any]:
    """Keep the tables of `tcprobe profile train_gan` that name no path, and figures of its run.json."""
    out, batch = folder / "run", DRY_BATCH if dry else SIZES["good"].batch
    words = ["--precision", precision, "--python", machine.pythons["tensorflow"], "--output", str(out), "train_gan"]
    small = ["--steps", "30", "--batch-size", str(batch)] if dry else []
    code = tcprobe(["profile", *words, *small], seconds, folder)
    if code or not (out / "run.json").exists():
        raise Failed(f"exit code {code}: {last_line(folder / 'log.txt')}")
    of = json.loads((out / "run.json").read_text(encoding="utf-8"))
    if not dry and not of["gpu_used"]:
        raise Failed("TensorFlow sees no GPU: tensorflow[and-cuda] does, where the driver is new enough")
    for path in (out / "tables").glob("*.csv"):
        if path.stem in ("summary", "kernels", "iterations"):
            shutil.copyfile(path, folder / path.name)
    kept = ("tensorflow", "keras", "python", "driver", "gpus", "window", "peak_gpu_memory_bytes")
    return {**{name: of[name] for name in kept}, "notes": [note["code"] for note in of["notes"]], "batch": batch}


def trace(
    machine: Machine, framework: str, suffix: str, precision: str, odd: bool, folder: Path, seconds: float
) -> dict[str, Any]:
    """Keep what the framework's own profiler wrote of a small training step, with no path in it."""
    made = folder / f"step{suffix}"
    width = (4090 if odd else 4096) if framework == "jax" else (1018 if odd else 1024)
    script = Path(__file__).with_name(f"{framework}_step.py")
    code = run([machine.pythons[framework], str(script), precision, str(width), str(made)], seconds, folder / "log.txt")
    if code or not made.exists():
        raise Failed(f"exit code {code}: {last_line(folder / 'log.txt')}")
    if suffix == ".json":
        text = re.sub(r'"/[^"\n]*/(?=[^"/]+\.py)', '"', made.read_text(encoding="utf-8"))
        with gzip.open(folder / "step.json.gz", "wt", encoding="utf-8") as file:
            file.write(text)
        made.unlink()
    else:  # of the same length, since protobuf counts bytes
        place = str(script).encode()
        made.write_bytes(made.read_bytes().replace(place, script.name.encode().rjust(len(place), b"_")))
    return {"framework": framework, "width": width}


def classify(
    machine: Machine, through: str, cases: list[Case], dry: bool, folder: Path, seconds: float
) -> dict[str, Any]:
    """Keep what became of each case (cases.csv) and what Nsight Compute counted of each launch (launches.csv)."""
    results, orders = folder / "results.jsonl", [case.order() for case in cases]
    told = {"framework": through, "device": "cpu" if dry else "cuda", "results": str(results), "cases": orders}
    (folder / "orders.json").write_text(json.dumps(told), encoding="utf-8")
    command = [machine.pythons[through], str(OPS), str(folder / "orders.json")]
    code = run(
        command if dry else [*counting(str(machine.ncu), folder), *command], seconds, folder / "log.txt", **QUIET
    )
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    status = {line["case"]: line["status"] for line in map(json.loads, lines)}
    ends = ((case, "x".join(map(str, case.sizes)), status.get(case.name, "did not end")) for case in cases)
    rows = ({**case.order(), "sizes": sizes, "aligned": case.aligned, "status": end} for case, sizes, end in ends)
    write(folder / "cases.csv", CASES, rows)
    if "ran" not in status.values():
        raise Failed(f"no case ran: {next(iter(status.values()), last_line(folder / 'log.txt'))}")
    if not dry:
        keep_launches(folder)
    early = f"exit code {code} after {len(status)} cases: {last_line(folder / 'log.txt')}" if code else None
    return {"framework": through, "ran": list(status.values()).count("ran"), "cases": len(cases), "reason": early}


def counting(ncu: str, folder: Path) -> list[str]:
    """Return Nsight Compute's part of a command: it counts what runs while the profiler is on, and changes no clock."""
    run([ncu, "--query-metrics"], 60, folder / "metrics.txt")
    metrics = tensor_metrics((folder / "metrics.txt").read_text(encoding="utf-8", errors="replace"))
    how = "--nvtx --profile-from-start off --target-processes all --clock-control none --cache-control none"
    out = f"--csv --page raw --print-units base --metrics {','.join(metrics)} --log-file"
    return [ncu, *how.split(), *out.split(), str(folder / "ncu.csv")]


def keep_launches(folder: Path) -> None:
    """Write launches.csv: each launch that was counted, with case, kernel and counters; Failed where none was."""
    counted = folder / "ncu.csv"
    try:
        sheet = read_sheet(counted)
    except InputError as error:
        with (folder / "log.txt").open("ab") as log:
            log.write(counted.read_bytes() if counted.exists() else b"")
        raise Failed(f"nothing was counted: {last_line(folder / 'log.txt')}") from error
    metrics = sorted(name for name in sheet.metrics if name.startswith("sm__"))
    figures = [(name, sheet.metric(name).tolist()) for name in metrics]
    spent = sheet.metric(DURATION).tolist()
    texts = (sheet.texts("Kernel Name"), sheet.sizes("grid"), sheet.sizes("block"))
    who = zip(ranges(counted, sheet.rows), *(column.tolist() for column in texts), strict=True)
    rows: Iterable[dict[str, Any]] = (
        {"case": case, "kernel": kernel or "", "grid": grid or "", "block": block or ""}
        | {name: f"{values[row]:.15g}" for name, values in figures if values[row] == values[row]}
        | {"duration_ns": spent[row] if spent[row] == spent[row] else ""}
        for row, (case, kernel, grid, block) in enumerate(who)
    )
    write(folder / "launches.csv", (*LAUNCHES, *metrics), rows)


def ranges(counted: Path, launches: int) -> list[str]:
    """Return the case by launch, from the ranges of the process; empty texts where the file does not say."""
    with counted.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = list(csv.reader(line for line in file if line.startswith('"')))
    head = next((row for row in rows if "Kernel Name" in row), [])
    place = next((at for at, name in enumerate(head) if "Start/Stop_Range" in name), None)
    texts = [row[place] for row in rows if place is not None and len(row) == len(head) and row[0].isdigit()]
    found = [RANGE.search(text) for text in texts] if len(texts) == launches else [None] * launches
    return [match[1] if match else "" for match in found]


def write(path: Path, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write a table as CSV; what a row lacks is empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
