"""`tcprobe calibrate`: measure this machine's GPU for better predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from tcprobe.errors import UsageError
from tcprobe.visible import put, say

if TYPE_CHECKING:
    from tcprobe.calibration.files import Calibration
    from tcprobe.flows.calibrate import Calibrated, MeasuredRun

Cells = tuple[str, ...]


def calibrate(
    python: Annotated[
        str | None,
        Option(
            metavar="PATH",
            envvar="TCPROBE_PYTHON",
            help="Interpreter that has the framework. Default: the one that runs tcprobe.",
        ),
    ] = None,
    framework: Annotated[
        Literal["auto", "tensorflow", "torch", "jax"],
        Option(help="Library to measure through; auto is the first of these that sees a GPU."),
    ] = "auto",
    device: Annotated[
        int, Option(min=0, metavar="N", help="Number of the GPU among those that the framework sees.")
    ] = 0,
    target_gpu: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="GPU whose figures hold where gpus.csv lacks the one here; with --from the one to fit.",
        ),
    ] = None,
    budget: Annotated[float, Option(min=1, metavar="SECONDS", help="Longest time to measure.")] = 240.0,
    output: Annotated[
        str | None, Option("--output", "-o", metavar="FILE.csv", help="Keep what was measured as a CSV.")
    ] = None,
    raw: Annotated[
        str | None, Option("--from", metavar="FILE.csv", help="Fit what was measured before; measure nothing.")
    ] = None,
    force: Annotated[
        bool,
        Option("--force", "-f", help="Replace files, and keep constants that predict worse than the shipped ones."),
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Measure a little on the CPU, to try it out; fit nothing.")
    ] = False,
    show: Annotated[bool, Option("--show", help="List the GPUs that are calibrated.")] = False,
) -> None:
    """Measure matrix multiplications and convolutions on the GPU at hand, in under 5 minutes.

    The constants of the cost model are fitted to them and kept in the user's configuration folder, where
    `tcprobe audit-shapes` finds them when it predicts for this GPU.
    """
    from tcprobe.flows.calibrate import CalibrateOptions, saved_calibrations
    from tcprobe.flows.calibrate import calibrate as run
    from tcprobe.foreign import input_path, output_path

    kept = None if output is None else output_path(output)
    read = None if raw is None else input_path(raw)
    wanted = CalibrateOptions(python, framework, device, target_gpu, budget, kept, read, force, dry_run)
    if show and wanted != CalibrateOptions(python):
        raise UsageError("--show stands alone", "leave the other options out")
    put(*(_list(saved_calibrations()) if show else _lines(run(wanted, say))))


def _lines(found: Calibrated) -> list[str]:
    lines = [] if found.measured is None else _measured(found.measured)
    if found.gpu is None:
        return [*lines, "nothing was fitted: a CPU's times are not a GPU's"]
    header = ("products not fitted", "number", "off by %", "shipped %")
    body = [(s.kind, f"{s.rows:,}", f"{s.error_pct:.1f}", f"{s.shipped_pct:.1f}") for s in found.scores]
    lines += ["", *_table(header, body), ""]
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
    if not found:
        return ["no GPU is calibrated"]
    header = ("gpu", "date", "products", "off by %", "shipped %", "stack", "measured through")
    body = [
        (
            c.constants.gpu,
            c.date or "-",
            _whole(c.rows),
            _pct(c.error_pct),
            _pct(c.shipped_pct),
            c.constants.stack.kind,
            c.constants.source or "-",
        )
        for c in found
    ]
    return _table(header, body)


def _whole(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _table(header: Cells, body: Sequence[Cells]) -> list[str]:
    """Return rows aligned in columns, with numbers to the right."""
    from tcprobe.report.blocks import ColumnHead, Section, visible_block
    from tcprobe.report.grid import text_lines

    right = [
        all(cell.replace(",", "").replace(".", "").isdigit() for cell in cells) for cells in zip(*body, strict=True)
    ]
    heads = tuple(ColumnHead(text, right=numbers) for text, numbers in zip(header, right, strict=True))
    return text_lines(visible_block(Section("", heads, tuple(body))), None)
