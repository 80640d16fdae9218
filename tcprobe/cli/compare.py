"""`tcprobe compare`: hold runs against the first one."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tcprobe.cli import options as o

By = StrEnum("By", ["figure", "layer", "op", "kernel", "renamed", "place", "range", "loss", "setting"])
"""A table of a comparison; the names are those of `tcprobe.report.compare.document.TABLE_OF`."""


PathsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="A B [C...]", help="Run folders, profile files, or directories with one; A is the first. Or a sweep."
    ),
]
ByOption = Annotated[
    list[By] | None, typer.Option(help="Show only this table below the answer; may be given several times.")
]


def compare(
    ctx: typer.Context,
    paths: PathsArgument,
    fail_if: o.FailIfOption = None,
    allow_unknown: o.AllowUnknownOption = False,
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
) -> None:
    """Compare runs: did the change help? A is what the others are held against.

    Takes whatever tcprobe report takes. Says whether the difference of step times is real, which layers, ops and
    kernels got faster and slower, and which kernels took the place of others. Exits with 1 where a --fail-if holds,
    with 2 where it cannot be told. A run may be a baseline: tcprobe compare baseline:main RUN.
    """
    with o.document(ctx, "compare", format, output, force, o.render_spec(width, safe_csv)) as out:
        from tcprobe.analysis import Options
        from tcprobe.flows.compare import make_comparison, refuse_same
        from tcprobe.flows.conditions import judge_comparison, parse_conditions
        from tcprobe.flows.runs import is_sweep
        from tcprobe.foreign import input_path
        from tcprobe.report.compare.document import CompareDocument
        from tcprobe.report.document import ReportSpec

        conditions = parse_conditions(fail_if or (), changes=True)
        given = [input_path(path) for path in paths]
        refuse_same(given)
        options = Options(iter_start, iter_stop, target_gpu, step_range)
        asked = ReportSpec(top, tuple(by or ()), out.brief(all), out.width, out.web)
        if len(given) == 1 and is_sweep(given[0]):
            from tcprobe.cli.sweep import show_sweep

            show_sweep(given[0], out, options, asked, (by, fail_if))
            return
        found = make_comparison(given, options)
        verdicts = judge_comparison(conditions, found)
        with o.judged(verdicts, found.names, allow_unknown):
            out.write(CompareDocument(found, asked, verdicts))
