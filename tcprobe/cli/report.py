"""`tcprobe report`: read any profile and report on it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tcprobe.cli import options as o

By = StrEnum(
    "By",
    "kernel op range range-time layer iteration unit device phase wait gap copy cause kind advice step-range stretch "
    "chain",
)
"""A table to show; the names are those of `tcprobe.report.run.views.BY`."""


PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="Run folder, profile file, or directory with one.")]
ByOption = Annotated[
    list[By] | None, typer.Option(help="Show only this table below the first screen; may be given several times.")
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        metavar="OTHER",
        help="Also say what changed from this run or profile; --fail-if step_time>+5% then is of that change.",
    ),
]


def report(
    ctx: typer.Context,
    path: PathArgument,
    format: o.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: o.OutputOption = None,
    top: o.TopOption = None,
    by: ByOption = None,
    all: o.AllOption = False,  # noqa: A002 - likewise
    iter_start: o.IterStartOption = None,
    iter_stop: o.IterStopOption = None,
    step_range: o.StepRangeOption = None,
    target_gpu: o.TargetOption = None,
    width: o.WidthOption = None,
    force: o.ForceOption = False,
    safe_csv: o.SafeCsvOption = False,
    against: AgainstOption = None,
    fail_if: o.FailIfOption = None,
) -> None:
    """Read a profile and report its Tensor Core use: how good, why not better, what first.

    Reads a run folder of tcprobe, *.xplane.pb of TensorFlow or JAX, Nsight Systems' report (*.nsys-rep) or its SQLite
    export (nsys export --type=sqlite), the CSV or JSON reports of DLProf, the CSV of Nsight Systems (nsys stats
    --format csv) and the CSV of Nsight Compute (ncu --csv --page raw). Needs neither a GPU nor TensorFlow. Exits with
    1 where a --fail-if holds, with 2 where it cannot be told.
    """
    with o.document(ctx, "run", format, output, force, o.render_spec(width, safe_csv)) as out:
        from tcprobe.analysis import Options
        from tcprobe.flows.compare import make_judged_report
        from tcprobe.foreign import input_path
        from tcprobe.report.document import ReportSpec
        from tcprobe.report.run.document import RunDocument

        options = Options(iter_start, iter_stop, target_gpu, step_range)
        other = None if against is None else input_path(against)
        made = make_judged_report(input_path(path), options, other, fail_if or (), top)
        with o.judged(made.verdicts, made.names):
            asked = ReportSpec(top, tuple(by or ()), out.brief(all), out.width)
            o.tell_written(out.write(RunDocument(made.profile, asked, made.added)))
