"""One training step as each profiler recorded it, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from bench.gpu.summary.markdown import micro, name, number, table
from bench.gpu.summary.section import FAKE, About, Data

TITLE = "Profiles of one step"
MOST_SHOWN: Final = 20


def make(about: About) -> Data:
    """Return the figures of each step, by recorder."""
    from bench.gpu.profiles.compared import compare

    return {"steps": [asdict(step) for step in compare(about.folder, about.capability)]}


def show(data: Data, dry: bool) -> Iterator[str]:
    """Yield a line for each recorder, and the kernels that recorders count differently."""
    if not data["steps"]:
        yield "No step was recorded."
        return
    by = f"counters ({FAKE})" if dry else "counters"
    yield f"A step with and without the recorder; the share of kernel time on Tensor Cores, by name and {by}."
    yield ""
    head = (
        *("model", "framework", "precision", "recorder", "#step us", "#without us", "#more %"),
        *("#kernel us", "#launches", "#on Tensor Cores %", "#unknown %", "#by counters %", "#unproved %", "notes"),
    )
    yield from table(head, [_line(step, one) for step in data["steps"] for one in step["recordings"]])
    for step in data["steps"]:
        yield from _uneven(step)


def _line(step: Data, one: Data) -> tuple[object, ...]:
    return (
        *(step["model"], step["framework"], one["precision"], one["recorder"]),
        *(micro(one["step_ns"]), micro(one["plain_step_ns"]), number(one["overhead_pct"])),
        *(micro(one["kernel_ns"]), number(one["kernels"])),
        *(number(one[k]) for k in ("tc_pct", "unknown_pct", "counter_tc_pct", "counter_unknown_pct")),
        "; ".join(one["notes"]),
    )


def _uneven(step: Data) -> Iterator[str]:
    found = step["uneven"]
    if not found:
        return
    what = f"{step['model']} through {step['framework']}"
    yield f"Kernels of {what} whose launches per step recorders count differently: {len(found)}\n"
    recorders = list(found[0]["per_step"])
    yield from table(
        ("kernel", *(f"#{recorder}" for recorder in recorders)),
        [(name(u["kernel"]), *(number(u["per_step"][r]) for r in recorders)) for u in found[:MOST_SHOWN]],
    )
