"""`tcprobe sweep`: run a workload under combinations of settings: which is fastest, and what does each change give?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from tcprobe.cli import options as o
from tcprobe.cli import profile as p
from tcprobe.errors import MeasurementFailed, UsageError
from tcprobe.visible import put, say, tell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tcprobe.analysis import Options
    from tcprobe.flows.sweep.plan import SweepOptions
    from tcprobe.report.document import ReportSpec


def _list(text: str) -> Any:
    return Option(metavar="A,B", help=text, show_default=False)


PrecisionOption = Annotated[str, _list("Arithmetic: float32, tf32, mixed_float16, mixed_bfloat16.")]
XlaOption = Annotated[str, _list("Compile with XLA: on, off.")]
ProfilerOption = Annotated[str, _list("Profilers: tensorflow, dlprof, nsys. Default: auto.")]
PythonOption = Annotated[str, _list("Interpreters that run the workload. Default: tcprobe's own.")]
VaryOption = Annotated[
    list[str] | None,
    Option(
        metavar="ARG=A,B", help='Values of an argument of the workload, "--sizes=good,bad"; "--flag": with and without.'
    ),
]
VaryEnvOption = Annotated[
    list[str] | None, Option(metavar="NAME=A,B", help="Values of a variable of the workload's environment.")
]
VaryConstantOption = Annotated[
    list[str] | None,
    Option(metavar="NAME=A,B", help="Literals for a constant at the top of the script; the file stays as it is."),
]
ExcludeOption = Annotated[
    list[str] | None,
    Option(metavar="WHAT", help='Leave combinations out, as in "precision=float32,loss-scale=dynamic".'),
]
BaselineOption = Annotated[
    str | None, Option(metavar="WHAT", help="What all are held against, likewise. Default: the first combination.")
]
LimitOption = Annotated[int | None, Option(min=1, metavar="N", help="Run the first N combinations alone.")]
RepeatOption = Annotated[int, Option(min=1, max=100, help="Runs of each combination, in turn (ABCABC).")]
PauseOption = Annotated[float, Option(min=0, metavar="SECONDS", help="Wait so long between runs.")]
DryRunOption = Annotated[bool, Option("--dry-run", help="Show what would run, and run nothing.")]
FolderOption = Annotated[
    str | None, Option(metavar="DIR", help="Folder of the sweep. Default: tcprobe-runs/WORKLOAD-sweep-TIME.")
]
FileOption = Annotated[
    str | None, Option("-o", metavar="PATH", help="Write the result to a file or folder, as tcprobe report does.")
]


def sweep(
    ctx: typer.Context,
    words: p.WordsArgument = None,
    precision: PrecisionOption = "",
    xla: XlaOption = "",
    vary: VaryOption = None,
    vary_env: VaryEnvOption = None,
    vary_constant: VaryConstantOption = None,
    exclude: ExcludeOption = None,
    limit: LimitOption = None,
    repeat: RepeatOption = 1,
    baseline: BaselineOption = None,
    pause: PauseOption = 0.0,
    dry_run: DryRunOption = False,
    profiler: ProfilerOption = "",
    python: PythonOption = "",
    launcher: o.LauncherOption = "",
    device: o.DeviceOption = None,
    iter_start: p.IterStartOption = None,
    iter_stop: p.IterStopOption = None,
    output: FolderOption = None,
    share: p.ShareOption = False,
    target_gpu: p.TargetGpuOption = None,
    metric_pattern: p.MetricPatternOption = None,
    step_function: p.StepFunctionOption = None,
    step_range: p.StepRangeOption = None,
    key_node: p.KeyNodeOption = None,
    mode: o.ModeOption = None,
    delay: o.DelayOption = None,
    duration: o.DurationOption = None,
    dlprof_args: p.DlprofArgsOption = "",
    nsys_args: p.NsysArgsOption = "",
    with_xspace: p.WithXspaceOption = False,
    format: o.FormatOption = None,  # noqa: A002 - the parameter's name is the option's
    report_file: FileOption = None,
    top: o.TopOption = None,
    all: o.AllOption = False,  # noqa: A002 - likewise
    width: o.WidthOption = None,
    force: o.ForceOption = False,
    safe_csv: o.SafeCsvOption = False,
) -> None:
    """Run a workload under combinations of settings, and say which is fastest and what each change gives.

    tcprobe's options stand before WORKLOAD, all that follows is the workload's own:
    tcprobe sweep --precision float32,mixed_float16 --vary "--sizes=good,bad" train_gan --steps 40

    Each run is one of tcprobe profile. After an interruption the same command runs what is not whole yet.
    """
    given = locals()
    o.check_words(ctx, words)
    with o.document(ctx, "sweep", format, report_file, force, o.render_spec(width, safe_csv)) as out:
        if dry_run:
            _show_plan(_options(given), format == "json")
        else:
            from tcprobe.report.document import ReportSpec

            _run(_options(given), out, ReportSpec(top, (), out.brief(all), out.width, out.web))


def _run(options: SweepOptions, out: o.Output, spec: ReportSpec) -> None:
    from tcprobe.analysis import Options
    from tcprobe.flows.sweep.run import read_sweep, run_sweep
    from tcprobe.report.sweep.document import SweepDocument

    folder, ran = run_sweep(options, say)
    result = read_sweep(folder, Options(target_gpu=options.base.target_gpu), ran)
    out.write(SweepDocument(result, spec))
    say(f"next: tcprobe report {shlex.quote(str(folder))}")
    if not any(run.state == "whole" for run in result.runs):
        raise MeasurementFailed(f"{folder}: no run of this sweep ended well", "see what the workload printed")


def show_sweep(folder: Path, out: o.Output, options: Options, spec: ReportSpec, other: Sequence[object]) -> None:
    """Show the sweep in a folder, for a verb that has options that none has.

    Raises:
        UsageError: one of these `other` options was given.
    """
    if any(other):
        raise UsageError(f"{folder} is a sweep, which has no --by, --against and --fail-if", "name one of its runs")
    from tcprobe.flows.sweep.run import read_sweep
    from tcprobe.report.sweep.document import SweepDocument

    out.write(SweepDocument(read_sweep(folder, options), spec))


def _options(given: dict[str, Any]) -> SweepOptions:
    """Return what was asked for; an option that takes a list has it in a field of its own."""
    from tcprobe.flows.sweep.plan import SweepOptions

    lists = {name: given[name] for name in ("precision", "xla", "profiler", "python") if given[name]}
    single = dict.fromkeys(("precision", "xla", "python"), None) | {"profiler": "auto", "ranks": None}
    base = p.options_of(given | single)
    several = {name: tuple(given[name] or ()) for name in ("vary", "vary_env", "vary_constant", "exclude")}
    return SweepOptions(
        base,
        lists,
        **several,
        baseline=given["baseline"],
        limit=given["limit"],
        repeat=given["repeat"],
        pause_s=given["pause"],
    )


def _show_plan(options: SweepOptions, as_json: bool) -> None:
    from tcprobe.flows.sweep.plan import masked, plan_of
    from tcprobe.report.sweep.document import plan_lines
    from tcprobe.report.sweep.words import plan_text
    from tcprobe.schema.records import as_dict

    plan = masked(plan_of(options))
    tell(plan_text(plan))
    if as_json:
        o.put_json(plan=as_dict(plan))
    else:
        put(*plan_lines(plan, o.text_width(None)))
