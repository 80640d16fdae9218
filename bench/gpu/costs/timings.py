"""Record resize pairs through one framework: its interpreter times them, a table holds the ratios."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.gpu.costs.clocks import sampled
from bench.gpu.costs.pairs import Order, orders
from bench.gpu.costs.said import problem
from bench.gpu.day import LOG, Clock, Day, NotRecorded, OutOfTime, run
from bench.gpu.machine import Framework
from bench.gpu.private import without_paths
from bench.gpu.tables import PAIRS, write_table
from tcprobe.calibration.plan import CPU
from tcprobe.calibration.start import CPU_ONLY, NO_TF32, PROGRAM, QUIET, WARM_S, Device, device_of
from tcprobe.flows.calibrate import TENSOR_CORE_SHARE
from tcprobe.hardware import find_gpu, load_gpus

TABLE: Final = "pairs.csv.gz"
TIMER: Final = Path(__file__).with_name("timed_pairs.py")
ROUNDS: Final = 7
END_S: Final = 8.0  # from the last pair that may begin to the end of the unit
DRY_END_S: Final = 3.0
LEAST_S: Final = 5.0  # with less a framework is not imported again
ONE_BYTE: Final = ("torch", "jax")  # TensorFlow multiplies no 1-byte types on a GPU


def record(day: Day, framework: Framework, folder: Path, seconds: float) -> None:
    """Time the pairs within so many seconds, those on Tensor Cores first; what was timed counts, however it ended."""
    clock = Clock(seconds - (DRY_END_S if day.dry else END_S))
    rows = folder / "pairs.csv"
    rows.write_text(",".join(PAIRS) + "\n", encoding="utf-8")
    planned = orders(*_memory(day), framework.name in ONE_BYTE, day.dry)
    answers: list[Mapping[str, Any]] = []
    with sampled(day, folder):
        for plain, (part, share) in enumerate(zip(planned, (TENSOR_CORE_SHARE, 1.0), strict=True)):
            if clock.left() > LEAST_S or not answers:
                answers.append(_timed(day, framework, folder, part, clock.left() * share, bool(plain)))
            if "unusable" in answers[-1]:
                rows.unlink()
                raise NotRecorded(answers[-1]["unusable"])
    devices = [device_of(framework.name, told["about"]) for told in answers if "about" in told]
    (folder / "said.txt").write_text(_summary(devices, answers), encoding="utf-8")
    _write(folder, rows, devices)


def _timed(
    day: Day, framework: Framework, folder: Path, pairs: Sequence[Order], seconds: float, plain: bool
) -> Mapping[str, Any]:
    """Run the timing program once, and return its answer; empty if it did not live to give one."""
    path, out = folder / "orders.json", folder / "answer.json"
    told = {
        "measure": str(PROGRAM.source),
        "framework": framework.name,
        "device": CPU if day.dry else "gpu:0",
        "tf32": not plain,
        "pairs": pairs,
        "rows": str(folder / "pairs.csv"),
        "columns": PAIRS,
        "rounds": 3 if day.dry else ROUNDS,
        "sample_ms": 1 if day.dry else 10,
        "warm_ms": 0 if day.dry else 20,
        "warm_s": 0.0 if day.dry else WARM_S,
        "seconds": seconds,
        "out": str(out),
    }
    path.write_text(json.dumps(told), encoding="utf-8")
    environment = {**QUIET, **(CPU_ONLY if day.dry else NO_TF32 if plain else {})}
    grace = (DRY_END_S if day.dry else END_S) - 1.0
    with suppress(OutOfTime):  # a pair that hangs: what came before it is whole
        run([framework.python, str(TIMER), str(path)], seconds + grace, log=folder / LOG, environment=environment)
    answer: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    for left in (path, out):
        left.unlink(missing_ok=True)
    return answer


def _write(folder: Path, rows: Path, devices: Sequence[Device]) -> None:
    """Write the table.

    Raises:
        NotRecorded: no pair was timed.
    """
    library = next((device.library for device in devices), None)
    with rows.open(encoding="utf-8", newline="") as file:
        found = [{**row, "status": without_paths(row["status"]), "library": library} for row in csv.DictReader(file)]
    rows.unlink()
    if not any(row["status"] == "ran" for row in found):
        reasons = [str(row["status"]) for row in found]
        raise NotRecorded(*((reasons[0], None) if reasons else problem(folder / LOG)))
    write_table(folder / TABLE, PAIRS, found)


def _summary(devices: Sequence[Device], answers: Sequence[Mapping[str, Any]]) -> str:
    """Return what was timed and what was not, a line per run of the program."""
    lines = [device.text for device in devices[:1]]
    for told in answers:
        if "timed" in told:
            why = "since the device failed" if told["broken"] else "for want of time"
            lines.append(
                f"{told['timed']} pairs timed, {told['failed']} that could not be computed, {told['left']} left {why}"
            )
        else:
            lines.append("ended before its end: what was timed until then was kept")
    return "\n".join(lines) + "\n"


def _memory(day: Day) -> tuple[float, float]:
    """Return the size of the second-level cache and of the memory; of an unknown GPU the largest cache there is."""
    if day.machine.gpu is not None:
        gpu = find_gpu(day.machine.gpu)
        return gpu.l2_bytes, gpu.memory_bytes
    megabytes = day.machine.smi.get("memory.total", "").partition(" ")[0]
    return max(gpu.l2_bytes for gpu in load_gpus()), (float(megabytes) if megabytes.isdigit() else 8192) * 2**20
