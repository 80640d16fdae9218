"""What `tcprobe profile` said of packaged workloads, and which of its figures contradict one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from bench.gpu.summary.markdown import micro, number, table
from bench.gpu.summary.section import About, Data

TITLE = "Runs of tcprobe profile"


def make(about: About) -> Data:
    """Return the figures of each run, and what does not hold."""
    from bench.gpu.runs.consistency import violations
    from bench.gpu.runs.told import tell

    rows = tell(about.folder)
    return {"runs": [asdict(row) for row in rows], "violations": [asdict(one) for one in violations(rows)]}


def show(data: Data, dry: bool) -> Iterator[str]:  # noqa: ARG001
    """Yield a line for each run, and one for each violation."""
    if not data["runs"]:
        yield "No run was recorded."
        return
    head = (
        *("run", "TensorFlow", "#batch", "#step us", "#without tcprobe us", "#more outside the window %", "#in it %"),
        *(
            "#on Tensor Cores %",
            "#known %",
            "#GPU busy %",
            "#kernels",
            "#TFLOP/s",
            "#of the peak %",
            "#peak memory MiB",
        ),
    )
    yield from table(head, map(_line, data["runs"]))
    yield f"Figures that contradict one another: {len(data['violations'])}\n"
    yield from table(
        ("what", "run", "figures"),
        [
            (v["kind"], v["unit"], ", ".join(f"{k} {_said(f)}" for k, f in v["figures"].items()))
            for v in data["violations"]
        ],
    )


def _line(run: Data) -> tuple[object, ...]:
    low, high, peak = run["tc_low_pct"], run["tc_high_pct"], run["peak_bytes"]
    share = None if low is None else number(low) if low == high else f"{number(low)}-{number(high)}"
    return (
        *(
            run["unit"],
            run["tensorflow"],
            run["batch"],
            micro(run["step_ns"] or run["logged_ns"]),
            micro(run["plain_ns"]),
        ),
        *(number(run[k]) for k in ("outside_pct", "inside_pct")),
        share,
        *(number(run[k]) for k in ("coverage_pct", "busy_pct", "kernels", "tflop_per_s", "peak_pct")),
        None if peak is None else number(peak / 2**20),
    )


def _said(figure: float | str | None) -> str:
    return number(figure) if isinstance(figure, int | float) else str(figure)
