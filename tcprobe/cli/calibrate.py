"""`tcprobe calibrate`: measure this machine's GPU for better predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from tcprobe.cli import options as o
from tcprobe.errors import UsageError
from tcprobe.schema.records import as_dict
from tcprobe.visible import put, say

if TYPE_CHECKING:
    from tcprobe.calibration.files import Calibration
    from tcprobe.flows.calibrate import Calibrated, MeasuredRun


PythonOption = Annotated[
    str | None,
    Option(
        metavar="PATH",
        envvar="TCPROBE_PYTHON",
        help="Interpreter that has the framework. Default: the one that runs tcprobe.",
    ),
]
FrameworkOption = Annotated[
    Literal["auto", "tensorflow", "torch", "jax"],
    Option(help="Library to measure through; auto is the first of these that sees a GPU."),
]
DeviceOption = Annotated[int, Option(min=0, metavar="N", help="Number of the GPU among those that the framework sees.")]
TargetGpuOption = Annotated[
    str | None,
    Option(
        metavar="NAME",
        autocompletion=o.gpus,
        help="GPU whose figures hold where gpus.csv lacks the one here; with --from the one to fit.",
    ),
]
BudgetOption = Annotated[float, Option(min=1, metavar="SECONDS", help="Longest time to measure.")]
OutputOption = Annotated[
    str | None, Option("--output", "-o", metavar="FILE.csv", help="Keep what was measured as a CSV.")
]
RawOption = Annotated[
    str | None, Option("--from", metavar="FILE.csv", help="Fit what was measured before; measure nothing.")
]
ForceOption = Annotated[
    bool,
    Option("--force", "-f", help="Replace files, and keep constants that predict worse than the shipped ones."),
]
DryRunOption = Annotated[bool, Option("--dry-run", help="Measure a little on the CPU, to try it out; fit nothing.")]
ShowOption = Annotated[bool, Option("--show", help="List the GPUs that are calibrated.")]


def calibrate(
    python: PythonOption = None,
    framework: FrameworkOption = "auto",
    device: DeviceOption = 0,
    target_gpu: TargetGpuOption = None,
    budget: BudgetOption = 240.0,
    output: OutputOption = None,
    raw: RawOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    show: ShowOption = False,
) -> None:
    """Measure matrix multiplications and convolutions on the GPU at hand, in under 5 minutes.

    The constants of the cost model are fitted to them and kept in the user's configuration folder, where
    `tcprobe audit-shapes` finds them when it predicts for this GPU.
    """
    as_json = o.chosen["json"]
    with o.errors_as_json(as_json):
        from tcprobe.calibration.files import calibrations
        from tcprobe.flows.calibrate import CalibrateOptions
        from tcprobe.flows.calibrate import calibrate as run
        from tcprobe.foreign import input_path, output_path

        kept = None if output is None else output_path(output)
        read = None if raw is None else input_path(raw)
        wanted = CalibrateOptions(python, framework, device, target_gpu, budget, kept, read, force, dry_run)
        if show and wanted != CalibrateOptions(python):
            raise UsageError("--show stands alone", "leave the other options out")
        if show:
            listed = calibrations()
            o.put_json(calibrations=[_row(one) for one in listed]) if as_json else put(*_list(listed))
            return
        found = run(wanted, say)
        o.put_json(**_data(found)) if as_json else put(*_lines(found))


def _row(one: Calibration) -> dict[str, Any]:
    constants = one.constants
    named = {"gpu": constants.gpu, "stack": constants.stack.kind, "source": constants.source, "path": str(one.path)}
    return {**named, "date": one.date, "products": one.rows, "error_pct": one.error_pct, "shipped_pct": one.shipped_pct}


def _data(found: Calibrated) -> dict[str, Any]:
    measured = found.measured
    return {
        "gpu": found.gpu.id if found.gpu is not None else None,
        "path": str(found.path) if found.path is not None else None,
        "worse": found.worse,
        "measured": measured
        and {"device": measured.device.text, "products": measured.done.measured, "seconds": measured.seconds},
        "scores": [as_dict(score) for score in found.scores],
    }


def _lines(found: Calibrated) -> list[str]:
    from tcprobe.report.fields import cell_of
    from tcprobe.report.grid import table_lines

    lines = [] if found.measured is None else _measured(found.measured)
    if found.gpu is None:
        return [*lines, "nothing was fitted: a CPU's times are not a GPU's"]
    fields = (
        cell_of("products not fitted", lambda score: score.kind),
        cell_of("number", lambda score: f"{score.rows:,}", right=True),
        cell_of("off by %", lambda score: _pct(score.error_pct), right=True),
        cell_of("shipped %", lambda score: _pct(score.shipped_pct), right=True),
    )
    lines += ["", *table_lines(fields, found.scores), ""]
    if found.worse:
        lines.append("these constants predict worse than the shipped ones; kept because of --force")
    through = f" ({found.stack.name})" if found.stack and found.stack.name else ""
    return [
        *lines,
        f"{found.path}: predictions for {found.gpu.id} rest on it from now on{through}; remove it to go back",
    ]


def _measured(measured: MeasuredRun) -> list[str]:
    done = measured.done
    left = f", {done.left:,} left for want of time" if done.left else ""
    left += f", {done.broken:,} left since the device failed" if done.broken else ""
    lines = [f"{measured.device.text}: {done.measured:,} products measured in {measured.seconds:.0f} s{left}"]
    lines += [f"{count:,} could not be computed: {reason}" for reason, count in done.failed.items()]
    return [*lines, *([f"{measured.raw}: what was measured"] if measured.raw else [])]


def _list(found: list[Calibration]) -> list[str]:
    from tcprobe.report.fields import cell_of, field_of, number_of
    from tcprobe.report.grid import table_lines

    fields = (
        field_of("gpu", lambda one: one.constants.gpu),
        field_of("date", lambda one: one.date),
        number_of("products", lambda one: one.rows),
        cell_of("off by %", lambda one: _pct(one.error_pct), right=True),
        cell_of("shipped %", lambda one: _pct(one.shipped_pct), right=True),
        field_of("stack", lambda one: one.constants.stack.kind),
        field_of("measured through", lambda one: one.constants.source),
    )
    return table_lines(fields, found) or ["no GPU is calibrated"]


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
