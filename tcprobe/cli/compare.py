"""`tcprobe compare`: hold runs against the first one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcprobe.cli import options as o
from tcprobe.cli.ending.gate import judged
from tcprobe.visible import tell


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command("compare")(compare)


def compare(
    ctx: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C...]", help="Run folders, profile files, or directories with one; A is the first."
        ),
    ],
    fail_if: o.FailIfOption = None,
    format: o.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    output: o.OutputOption = None,
    top: o.TopOption = None,
    by: o.ComparedByOption = None,
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
    with 2 where it cannot be told.
    """
    chosen = o.chosen_format(ctx, format, output)
    with o.errors_as_json(chosen == "json" and output in (None, "-")):
        from tcprobe.analysis import Options
        from tcprobe.flows.compare import make_comparison, refuse_same
        from tcprobe.flows.conditions.judge import judge_comparison
        from tcprobe.flows.conditions.parse import parse_conditions
        from tcprobe.flows.write.destination import destination
        from tcprobe.flows.write.document import write_document
        from tcprobe.foreign import input_path
        from tcprobe.report.compare.document import CompareDocument
        from tcprobe.report.compare.spec import CompareSpec

        conditions = parse_conditions(fail_if or (), changes=True)
        to = destination("compare", chosen, output, force)
        given = [input_path(path) for path in paths]
        refuse_same(given)
        found = make_comparison(given, Options(iter_start, iter_stop, target_gpu, step_range))
        verdicts = judge_comparison(conditions, found)
        document = CompareDocument(found, CompareSpec(top, tuple(by or ())), verdicts)
        with judged(verdicts, found.names):
            _say(write_document(document, o.render_spec(width, safe_csv), to))


def _say(files: list[Path]) -> None:
    """Print to standard error what was written."""
    if len(files) > 1:
        tell(f"Wrote {len(files)} tables to {files[0].parent}: {', '.join(f.name for f in files)}")
    elif files:
        tell(f"Wrote {files[0]}")
