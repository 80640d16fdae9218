"""One training step as each profiler recorded it, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.gpu.summary.markdown import micro, number, table
from bench.gpu.summary.section import About, Data, read_json, value
from bench.gpu.tables import read_table
from tcprobe.analysis.kernels.verdict import classify

TITLE = "Profiles of one step"


def make(about: About) -> Data:
    """Return the figures of a step, by model, framework and recorder."""
    return {"steps": [_step(path, about) for path in sorted(about.folder.glob("profiles/*/step.json"))]}


def _step(path: Path, about: About) -> Data:
    told = read_json(path)
    kernels = path.with_name("kernels.csv.gz")
    return {"unit": path.parent.name, **told, **(_counted(kernels, told, about) if kernels.exists() else {})}


def _counted(path: Path, told: Data, about: About) -> Data:
    """Return kernels, launches and kernel time of a step, and its share on Tensor Cores by name."""
    rows = read_table(path)
    counted = value(str(told.get("counted_steps") or "")) or None
    single = "sum_ns" not in (rows[0] if rows else {})  # a row is a launch
    time = {"yes": 0.0, "no": 0.0, "unknown": 0.0}
    for row in rows:
        time[classify(row["kernel"], about.capability).uses_tc] += (
            value(row["duration_ns" if single else "sum_ns"]) or 0.0
        )
    total = sum(time.values())
    launches = len(rows) if single else sum(int(row["calls"] or 0) for row in rows)
    return {
        "names": len({row["kernel"] for row in rows}),
        "launches_per_step": launches / counted if counted else None,
        "kernel_ns_per_step": total / counted if counted else None,
        "tc_pct": 100 * time["yes"] / total if total else None,
        "unknown_pct": 100 * time["unknown"] / total if total else None,
    }


def show(data: Data, dry: bool) -> Iterator[str]:  # noqa: ARG001
    """Yield a line for each recorder."""
    if not data["steps"]:
        yield "No step was recorded."
        return
    yield "A step with and without the recorder, start to start; kernels of the counted steps, Tensor Cores by name."
    yield ""
    head = (
        *("model", "framework", "precision", "recorder", "#step us", "#without us", "#more %"),
        *("#counted steps", "#kernel us/step", "#launches/step", "#names", "#on Tensor Cores %", "#unknown %"),
    )
    yield from table(head, map(_line, data["steps"]))


def _line(step: Data) -> tuple[object, ...]:
    took, plain = step.get("step_ns"), step.get("plain_step_ns")
    return (
        *(step.get(k) for k in ("model", "framework", "precision", "recorder")),
        micro(took),
        micro(plain),
        number(100 * (took / plain - 1)) if took and plain else None,
        step.get("counted_steps"),
        micro(step.get("kernel_ns_per_step")),
        *(step.get(k) for k in ("launches_per_step", "names", "tc_pct", "unknown_pct")),
    )
