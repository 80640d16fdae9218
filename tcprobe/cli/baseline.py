"""`tcprobe baseline`: keep the figures of a run under a name, to compare others with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tcprobe.cli import completion
from tcprobe.cli import options as o
from tcprobe.visible import put, tell

if TYPE_CHECKING:
    from tcprobe.flows.baselines import Baseline

NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        autocompletion=completion.baselines,
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
