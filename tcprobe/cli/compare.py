"""`tcprobe compare`: hold runs against the first one; and `tcprobe baseline`: keep the figures of a run for that."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tcprobe.cli import options as o
from tcprobe.visible import put, tell

if TYPE_CHECKING:
    from tcprobe.flows.baselines import Baseline

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


NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        autocompletion=o.baselines,
        help="What to call it, as main. Default: list the baselines.",
    ),
]
RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="RUN", show_default=False, help="Run folder or profile to keep. Default: the last run."),
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace a baseline of that name.")]


def baseline(
    name: NameArgument = None,
    run: RunArgument = None,
    force: ForceOption = False,
    iter_start: o.IterStartOption = None,
    iter_stop: o.IterStopOption = None,
    step_range: o.StepRangeOption = None,
    target_gpu: o.TargetOption = None,
) -> None:
    """Keep the figures of a run under a name, in a small file to commit, or list what is kept.

    tcprobe compare baseline:NAME RUN then holds another run against it. The file is tcprobe-baselines/NAME.json; it
    holds figures, steps and layers, but no command, host, path or variable of the environment.
    """
    with o.errors_as_json(o.chosen["json"]):
        from tcprobe.analysis import Options
        from tcprobe.cli.report import read_path
        from tcprobe.flows import baselines as b
        from tcprobe.flows.write import refuse_existing, write_files

        if name is None:
            _list([_row(b.read_baseline(file)) for file in b.baseline_files()])
            return
        file = b.file_of(name)
        refuse_existing([file], force, "--force replaces it, or choose another name")
        made = b.make_baseline(name, read_path(run, None), Options(iter_start, iter_stop, target_gpu, step_range))
        b.make_folder(file.parent)
        write_files([(file, partial(b.write_entry, made))], force)
        if o.chosen["json"]:
            o.put_json(baseline=_row(made), path=str(file))
        tell(f"Wrote {file}", f"Next: tcprobe compare baseline:{name} RUN --fail-if 'step_time>+5%'")


def _row(one: Baseline) -> dict[str, Any]:
    profile = one.profile
    gpus = dict.fromkeys(str(gpu["name"]) for gpu in profile.active_gpus)
    return {
        "name": one.name,
        "started": one.started,
        "gpu": ", ".join(gpus) or None,
        "precision": one.precision,
        "step_time_ns": profile.value("step_time_ns"),
        "verdict": one.verdict,
    }


def _list(rows: list[dict[str, Any]]) -> None:
    if o.chosen["json"]:
        o.put_json(baselines=rows)
        return
    if not rows:
        tell("No baseline is kept here; tcprobe baseline NAME RUN keeps one.")
        return
    from tcprobe.formatting import metric_text
    from tcprobe.report.fields import field_of
    from tcprobe.report.grid import table_lines

    shown = (
        field_of("baseline", lambda row: row["name"]),
        field_of("started", lambda row: (row["started"] or "")[:19].replace("T", " ")),
        field_of("gpu", lambda row: row["gpu"]),
        field_of("precision", lambda row: row["precision"]),
        field_of("step", lambda row: row["step_time_ns"] and metric_text("step_time_ns", row["step_time_ns"])),
        field_of("verdict", lambda row: row["verdict"]),
    )
    put(*table_lines(shown, rows, o.text_width(None)))
