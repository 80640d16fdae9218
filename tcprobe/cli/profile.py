"""`tcprobe profile`: run a workload under a profiler and report on it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from tcprobe.cli import options as o
from tcprobe.cli.ending import say_failure
from tcprobe.errors import OutputError, TcprobeError, UsageError
from tcprobe.probe.constants import RECORD, WITH_XSPACE
from tcprobe.visible import say, tell

if TYPE_CHECKING:
    from tcprobe.flows.profile import ProfileOptions, ProfileOutcome
    from tcprobe.flows.write import Destination
    from tcprobe.schema.profile import Profile


WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="WORKLOAD",
        show_default=False,
        autocompletion=o.workloads,
        help="A packaged workload (see `tcprobe workloads`), a script, or -m MODULE; then its own arguments.",
    ),
]
ProfilerOption = Annotated[
    o.Profiler,
    Option(
        envvar="TCPROBE_PROFILER",
        help="auto: DLProf, nsys or ncu with options of theirs; nsys for PyTorch and JAX; else TensorFlow's.",
    ),
]
PrecisionOption = Annotated[
    Literal["float32", "tf32", "mixed_float16", "mixed_bfloat16"] | None,
    Option(help="Arithmetic of the workload. Default: unchanged."),
]
XlaOption = Annotated[bool | None, Option("--xla/--no-xla", help="Compile with XLA, or not. Default: unchanged.")]
IterStartOption = Annotated[
    int | None, Option(min=0, metavar="N", help="First step to profile, from 0. Default: after the warm-up.")
]
IterStopOption = Annotated[
    int | None, Option(min=0, metavar="N", help="Last step to profile. Default: 20 steps in all.")
]
RanksOption = Annotated[
    str | None,
    Option(
        metavar="LIST", help="Ranks to profile of a launcher's job, as in 0,7 or 0-3; others run plain. Default: all."
    ),
]
OutputOption = Annotated[
    str | None, Option(metavar="DIR", help="Run folder to write. Default: tcprobe-runs/WORKLOAD-TIME.")
]
ForceOption = Annotated[bool, Option("--force", "-f", help="Replace an earlier run folder, and the file of -o.")]
ShareOption = Annotated[bool, Option("--share", help="Let others read the run folder. Default: its owner alone.")]
NoEnvironmentOption = Annotated[
    bool,
    Option("--no-environment", help="nsys, DLProf: take the environment out of their files, and delete their reports."),
]
TargetGpuOption = Annotated[
    str | None,
    Option(
        metavar="NAME",
        envvar="TCPROBE_TARGET_GPU",
        autocompletion=o.gpus,
        help="GPU to judge a run without a GPU for. Default: a100-sxm-40.",
    ),
]
MetricPatternOption = Annotated[
    list[str] | None,
    Option(metavar="REGEX", help="Further figures in what the workload logs; named groups name them."),
]
StepFunctionOption = Annotated[
    str | None,
    Option(metavar="NAME", envvar="TCPROBE_STEP_FUNCTION", help="Function whose calls are the steps."),
]
NumericsOption = Annotated[
    bool,
    Option(
        "--numerics", help="Count the gradients' values that float16 loses: is loss scaling needed? Slows the steps."
    ),
]
KeyNodeOption = Annotated[
    str | None,
    Option(metavar="NAME|auto", help="DLProf: op that runs once in each step; auto finds one in a short run."),
]
DlprofArgsOption = Annotated[
    str, Option(metavar="WORDS", help='DLProf: further options of its own, "--verbosity=quiet".')
]
NsysArgsOption = Annotated[
    str, Option(metavar="WORDS", help='Nsight Systems: further options of its own, "--cuda-memory-usage=true".')
]
WithXspaceOption = Annotated[
    bool,
    Option("--with-xspace", help="Nsight Systems: run a second time under TensorFlow's profiler, for ops and layers."),
]
KernelsOption = Annotated[
    str | None,
    Option(metavar="REGEX", help="Nsight Compute: count kernels of these names, from the run's start, not one step."),
]
LaunchCountOption = Annotated[
    int | None, Option(min=1, metavar="N", help="Nsight Compute: count so many launches, not one step.")
]
StepRangeOption = Annotated[
    str | None, Option(metavar="REGEX", help="Names of the NVTX ranges that are steps, as in 'iteration.*'.")
]
JsonOption = Annotated[
    bool, Option("--json", help="Report as JSON; on standard output the workload's moves to standard error.")
]
ReportFileOption = Annotated[
    str | None, Option("-o", metavar="FILE", help="Also write the report to FILE (.html, .json, .txt, .md).")
]


def profile(
    ctx: typer.Context,
    words: WordsArgument = None,
    profiler: ProfilerOption = "auto",
    precision: PrecisionOption = None,
    xla: XlaOption = None,
    iter_start: IterStartOption = None,
    iter_stop: IterStopOption = None,
    device: o.DeviceOption = None,
    python: o.PythonOption = None,
    launcher: o.LauncherOption = "",
    ranks: RanksOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    share: ShareOption = False,
    no_environment: NoEnvironmentOption = False,
    target_gpu: TargetGpuOption = None,
    metric_pattern: MetricPatternOption = None,
    step_function: StepFunctionOption = None,
    numerics: NumericsOption = False,
    key_node: KeyNodeOption = None,
    mode: o.ModeOption = None,
    delay: o.DelayOption = None,
    duration: o.DurationOption = None,
    dlprof_args: DlprofArgsOption = "",
    nsys_args: NsysArgsOption = "",
    with_xspace: WithXspaceOption = False,
    kernels: KernelsOption = None,
    launch_count: LaunchCountOption = None,
    step_range: StepRangeOption = None,
    json: JsonOption = False,
    report_file: ReportFileOption = None,
) -> None:
    """Run a training workload under a profiler and report its use of the Tensor Cores.

    tcprobe's options stand before WORKLOAD, all that follows is the workload's own:
    tcprobe profile --precision mixed_float16 train.py --epochs 3
    """
    given = locals()
    o.check_words(ctx, words)
    on_stdout = json and report_file in (None, "-")
    with o.errors_as_json(on_stdout):
        from tcprobe.flows.key_node import profile_by_key_node as run

        to = _destination(json, report_file, force)
        outcome = run(options_of(given), on_stdout, say)
        _show(outcome, to)
    _hint(ctx, outcome, words or [])
    raise typer.Exit(outcome.exit_code)


def options_of(given: dict[str, Any]) -> ProfileOptions:
    """Return what was asked for; most parameters are fields of the same name."""
    from tcprobe.capture.base import DlprofOptions, NcuOptions, NsysOptions
    from tcprobe.flows.more_runs import parse_ranks
    from tcprobe.flows.profile import ProfileOptions
    from tcprobe.foreign import output_path

    key_node, mode, delay, duration = (given[name] for name in ("key_node", "mode", "delay", "duration"))
    made = {name: given[name] for name in ProfileOptions.__struct_fields__ if name in given}
    return ProfileOptions(
        **made
        | {
            "words": tuple(given["words"] or ()),
            "launcher": o.split("--launcher", given["launcher"]),
            "ranks": parse_ranks(given["ranks"]),
            "output": None if given["output"] is None else output_path(given["output"]),
            "metric_patterns": tuple(given["metric_pattern"] or ()),
            "dlprof": DlprofOptions(key_node, mode, delay, duration, o.split("--dlprof-args", given["dlprof_args"])),
            "nsys": NsysOptions(o.split("--nsys-args", given["nsys_args"]), given["with_xspace"]),
            "ncu": NcuOptions(given.get("kernels"), given.get("launch_count")),
            "key_node": None,
        }
    )


def _destination(json: bool, report_file: str | None, force: bool) -> Destination | None:
    """Return where the report goes besides the terminal; None if nowhere else."""
    from tcprobe.flows.write import destination

    o.check_open(report_file in (None, "-"))
    if not json and report_file in (None, "-"):
        return None
    try:
        return destination("run", "json" if json else None, report_file, force)
    except UsageError as error:
        raise UsageError(error.message, "end the file's name in .html, .txt, .json, .md or .csv") from error


def _show(outcome: ProfileOutcome, to: Destination | None) -> None:
    """Write the file, say where everything is and what to type next, and print the report, which comes last."""
    failure = outcome.failure
    unprinted = None if outcome.report is None else _report(outcome, outcome.report, to)
    if outcome.report is None:
        _say_where(outcome)
    if failure is not None and outcome.exit_code == failure.exit_code:
        raise failure
    if failure is None and unprinted is not None and not outcome.exit_code:
        raise unprinted
    for error in (failure, unprinted):
        if isinstance(error, TcprobeError):
            say_failure(error)


def _say_where(outcome: ProfileOutcome) -> None:
    """Say where everything is, and what to type next where there is something to report."""
    from tcprobe.flows.profile import PAGE

    folder = shlex.quote(str(outcome.folder))
    if outcome.failure is None and not outcome.recorded_nothing:
        say(f"page: {folder}/{PAGE}")
        say(f"tables: {folder}/tables/*.csv")
        say(f"next: tcprobe report {folder}")
        if (outcome.folder / WITH_XSPACE / RECORD).is_file():
            say(f"the run under TensorFlow's profiler: tcprobe report {folder}/{WITH_XSPACE}")
    elif outcome.folder.is_dir():
        if not outcome.workload_code and not outcome.cut:
            say("whether this machine can record, and what to do where it cannot: tcprobe doctor")
        say(f"run folder kept: {folder}")


def _report(outcome: ProfileOutcome, report: Profile, to: Destination | None) -> OutputError | BrokenPipeError | None:
    """Write the file, say where everything is, and print the report; return why one of them failed."""
    from tcprobe.flows.write import destination, write_document
    from tcprobe.report.document import ReportSpec
    from tcprobe.report.run.document import RunDocument

    spec = o.render_spec()
    printed = to if to is not None and to.path is None else destination("run", "text", None)
    shown = o.Output(printed, spec)
    failed = None
    if outcome.came_to_nothing:
        say(f"{outcome.ending}, and nothing was recorded")
    try:
        if to is not None and to is not printed:
            out = o.Output(to, spec)
            out.write(RunDocument(report, ReportSpec(web=out.web)))
    except OutputError as error:
        failed = error
    _say_where(outcome)
    if printed is not to and outcome.came_to_nothing:
        return failed
    try:
        _part()
        brief = ReportSpec(brief=shown.brief(every=False), width=shown.width)
        write_document(RunDocument(report, brief), spec, printed)
    except (OutputError, BrokenPipeError) as error:
        return failed or error
    return failed


def _part() -> None:
    """Part the report from what the workload printed, where both are on a terminal."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        line = "\u2500" if "utf" in (sys.stderr.encoding or "").lower() else "-"
        tell("", line * (o.text_width(None) or 0))


def _hint(ctx: typer.Context, outcome: ProfileOutcome, words: Sequence[str]) -> None:
    """If the workload refused an argument that is an option of tcprobe, say that it must come earlier."""
    given = {word.partition("=")[0] for word in words[1:]}
    late = [name for name in o.names(ctx) if name in given and name.startswith("--") and name != "--help"]
    if outcome.workload_code == 2 and late:  # argparse exits with 2
        options = ", ".join(late)
        tell(f"hint: {options}: tcprobe's options stand before the workload, all after it is its own")
