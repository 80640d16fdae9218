"""`tcprobe profile`: run a workload under a profiler and report on it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from tcprobe.cli import options as o
from tcprobe.cli.ending.failure import say_failure
from tcprobe.cli.options import profile as p
from tcprobe.errors import OutputError, TcprobeError, UsageError
from tcprobe.probe.constants import RECORD, WITH_XSPACE
from tcprobe.visible import say, tell

if TYPE_CHECKING:
    from tcprobe.flows.profile import ProfileOutcome
    from tcprobe.flows.write.destination import Destination
    from tcprobe.schema.profile import Profile


def register(app: typer.Typer) -> None:
    """Add the verb to the application; words after the workload are the workload's own."""
    app.command(
        "profile",
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "allow_interspersed_args": False,
        },
    )(profile)


def profile(
    ctx: typer.Context,
    words: p.WordsArgument = None,
    profiler: p.ProfilerOption = "auto",
    precision: p.PrecisionOption = None,
    xla: p.XlaOption = None,
    iter_start: p.IterStartOption = None,
    iter_stop: p.IterStopOption = None,
    device: p.DeviceOption = None,
    python: p.PythonOption = None,
    launcher: p.LauncherOption = "",
    output: p.FolderOption = None,
    force: p.ForceOption = False,
    share: p.ShareOption = False,
    target_gpu: p.TargetOption = None,
    metric_pattern: p.PatternOption = None,
    step_function: p.StepFunctionOption = None,
    key_node: p.KeyNodeOption = None,
    mode: p.ModeOption = None,
    delay: p.DelayOption = None,
    duration: p.DurationOption = None,
    dlprof_args: p.DlprofArgsOption = "",
    nsys_args: p.NsysArgsOption = "",
    with_xspace: p.WithXspaceOption = False,
    step_range: p.StepRangeOption = None,
    json: p.JsonOption = False,
    report_file: p.FileOption = None,
) -> None:
    """Run a training workload under a profiler and report its use of the Tensor Cores.

    tcprobe's options stand before WORKLOAD, all that follows is the workload's own:
    tcprobe profile --precision mixed_float16 train.py --epochs 3
    """
    o.check_words(ctx, words)
    on_stdout = json and report_file in (None, "-")
    with o.errors_as_json(on_stdout):
        from tcprobe.capture.base import DlprofOptions, NsysOptions
        from tcprobe.flows.key_node import profile_by_key_node as run
        from tcprobe.flows.profile import ProfileOptions
        from tcprobe.foreign import output_path

        to = _destination(json, report_file, force)
        folder = None if output is None else output_path(output)
        wanted = ProfileOptions(
            tuple(words or ()), profiler, precision, xla, iter_start, iter_stop, device, python,
            o.split("--launcher", launcher), folder, force, target_gpu, tuple(metric_pattern or ()), step_function,
            DlprofOptions(key_node, mode, delay, duration, o.split("--dlprof-args", dlprof_args)),
            NsysOptions(o.split("--nsys-args", nsys_args), with_xspace), step_range, share=share,
        )  # fmt: skip
        outcome = run(wanted, on_stdout, say)
        _show(outcome, to)
    _hint(ctx, outcome, words or [])
    raise typer.Exit(outcome.exit_code)


def _destination(json: bool, report_file: str | None, force: bool) -> Destination | None:
    """Return where the report goes besides the terminal; None if nowhere else."""
    from tcprobe.flows.write.destination import destination

    if not json and report_file in (None, "-"):
        return None
    try:
        return destination("run", "json" if json else None, report_file, force)
    except UsageError as error:
        raise UsageError(error.message, "end the file's name in .txt, .json, .md or .csv") from error


def _show(outcome: ProfileOutcome, to: Destination | None) -> None:
    """Print the report, write the file, and say where everything is and what to type next."""
    failure = outcome.failure
    unprinted = None if outcome.report is None else _report(outcome, outcome.report, to)
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
    folder = shlex.quote(str(outcome.folder))
    if outcome.failure is None and not outcome.recorded_nothing:
        say(f"tables: {folder}/tables/*.csv")
        say(f"next: tcprobe report {folder}")
        if (outcome.folder / WITH_XSPACE / RECORD).is_file():
            say(f"the run under TensorFlow's profiler: tcprobe report {folder}/{WITH_XSPACE}")
    elif outcome.folder.is_dir():
        say(f"run folder kept: {folder}")


def _report(outcome: ProfileOutcome, report: Profile, to: Destination | None) -> OutputError | BrokenPipeError | None:
    """Print the report and write the file; return why it could not be printed, which costs nothing else."""
    from tcprobe.flows.write.destination import destination
    from tcprobe.flows.write.document import write_document
    from tcprobe.report.run.document import RunDocument
    from tcprobe.report.run.spec import ReportSpec

    document, spec = RunDocument(report, ReportSpec()), o.render_spec()
    printed = to if to is not None and to.path is None else destination("run", "text", None)
    unprinted: OutputError | BrokenPipeError | None = None
    if outcome.came_to_nothing:
        say(f"{outcome.ending}, and nothing was recorded")
    if printed is to or not outcome.came_to_nothing:
        try:
            write_document(document, spec, printed)
        except (OutputError, BrokenPipeError) as error:
            unprinted = error
    for path in write_document(document, spec, to) if to is not None and printed is not to else []:
        say(f"wrote {path}")
    return unprinted


def _hint(ctx: typer.Context, outcome: ProfileOutcome, words: Sequence[str]) -> None:
    """If the workload refused an argument that is an option of tcprobe, say that it must come earlier."""
    given = {word.partition("=")[0] for word in words[1:]}
    late = [name for name in o.names(ctx) if name in given and name.startswith("--") and name != "--help"]
    if outcome.workload_code == 2 and late:  # argparse exits with 2
        options = ", ".join(late)
        tell(f"hint: {options}: tcprobe's options stand before the workload, all after it is its own")
