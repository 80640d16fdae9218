"""`tcprobe report`: read any profile and report on it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from tcprobe.cli import options as o
from tcprobe.cli.ending.gate import judged
from tcprobe.visible import tell


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command("report")(report)


def report(
    ctx: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Run folder, profile file, or directory with one.")],
    format: o.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: o.OutputOption = None,
    top: o.TopOption = None,
    by: o.ByOption = None,
    iter_start: o.IterStartOption = None,
    iter_stop: o.IterStopOption = None,
    step_range: o.StepRangeOption = None,
    target_gpu: o.TargetOption = None,
    width: o.WidthOption = None,
    force: o.ForceOption = False,
    safe_csv: o.SafeCsvOption = False,
    against: o.AgainstOption = None,
    fail_if: o.FailIfOption = None,
) -> None:
    """Read a profile and report its Tensor Core use: how good, why not better, what first.

    Reads a run folder of tcprobe, *.xplane.pb of TensorFlow or JAX, Nsight Systems' SQLite exports (nsys export
    --type=sqlite), reports (*.nsys-rep) and CSV (nsys stats), DLProf's CSV and JSON, and Nsight Compute's CSV
    (ncu --csv --page raw). Needs neither a GPU nor TensorFlow. Exits with 1 where a --fail-if holds, with 2 where it
    cannot be told.
    """
    chosen = o.chosen_format(ctx, format, output)
    with o.errors_as_json(chosen == "json" and output in (None, "-")):
        from tcprobe.analysis import Options
        from tcprobe.flows.conditions.parse import parse_conditions
        from tcprobe.flows.judged_report import make_judged_report
        from tcprobe.flows.write.destination import destination
        from tcprobe.flows.write.document import write_document
        from tcprobe.foreign import input_path
        from tcprobe.report.run.document import RunDocument
        from tcprobe.report.run.spec import ReportSpec

        conditions = parse_conditions(fail_if or (), changes=against is not None)
        to = destination("run", chosen, output, force)
        options = Options(iter_start, iter_stop, target_gpu, step_range)
        other = None if against is None else input_path(against)
        made = make_judged_report(input_path(path), options, other, conditions, top)
        document = RunDocument(made.profile, ReportSpec(top, tuple(by or ())), made.added)
        with judged(made.verdicts, made.names):
            _say(path, write_document(document, o.render_spec(width, safe_csv), to))


def _say(path: str, files: list[Path]) -> None:
    """Print to standard error what was written, or what to type next."""
    if len(files) > 1:
        tell(f"Wrote {len(files)} tables to {files[0].parent}: {', '.join(f.name for f in files)}")
    elif files:
        tell(f"Wrote {files[0]}")
    elif sys.stderr.isatty():
        tell(f"Next: tcprobe report {shlex.quote(path)} -o tables/  (every table as CSV)")
