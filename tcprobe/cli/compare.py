"""`tcprobe compare`: hold runs side by side, and say whether the change helped."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tcprobe.cli import options as o
from tcprobe.visible import tell


class CompareBy(StrEnum):
    """A table of a comparison; the names are those of `tcprobe.report.compare.document.BY`."""

    figure = "figure"
    layer = "layer"
    op = "op"
    kernel = "kernel"
    renamed = "renamed"
    loss = "loss"
    setting = "setting"


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command("compare")(compare)


def compare(
    ctx: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="A B [C...]", help="Run folders or profiles, as report takes.")
    ],
    fail_if: o.FailIfOption = None,
    format: o.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: o.OutputOption = None,
    top: o.TopOption = None,
    by: Annotated[
        list[CompareBy] | None, typer.Option("--by", help="Show only this table; may be given several times.")
    ] = None,
    step_range: o.StepRangeOption = None,
    target_gpu: o.TargetOption = None,
    width: o.WidthOption = None,
    force: o.ForceOption = False,
    safe_csv: o.SafeCsvOption = False,
) -> None:
    """Compare runs: did the change help, and what got faster, slower, or another kernel?

    All runs are held against the first. Exit code 1 where a --fail-if condition is met, 2 where it cannot be told.
    """
    chosen = o.chosen_format(ctx, format, output)
    with o.errors_as_json(chosen == "json" and output in (None, "-")):
        from tcprobe.analysis import Options
        from tcprobe.flows.compare import make_comparison
        from tcprobe.flows.conditions import exit_code, judge_comparison, read_conditions
        from tcprobe.flows.write.destination import destination
        from tcprobe.flows.write.document import write_document
        from tcprobe.report.compare.document import ComparisonDocument
        from tcprobe.report.compare.words import called, verdict_text

        conditions = read_conditions(fail_if or (), compares=True)
        to = destination("compare", chosen, output, force)
        comparison = make_comparison(paths, Options(target_gpu=target_gpu, step_range=step_range))
        verdicts = judge_comparison(comparison, conditions)
        document = ComparisonDocument(comparison, verdicts, top, tuple(one.value for one in by or ()))
        with o.outcomes_told(bool(verdicts)):
            for path in write_document(document, o.render_spec(width, safe_csv), to):
                tell(f"Wrote {path}")
    for verdict in verdicts:
        tell(verdict_text(verdict, called(comparison)))
    raise typer.Exit(exit_code(verdicts))
