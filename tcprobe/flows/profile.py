"""`profile` as a function: run a workload under a profiler, keep what it wrote, report on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis import Options
from tcprobe.capture import CAPTURES, environment, folder, process, run_record, signals
from tcprobe.capture.base import Capture, CaptureOptions, CaptureRequest, Collected, Invocation, Launch
from tcprobe.capture.choice import choose
from tcprobe.capture.launchers import behind
from tcprobe.capture.probed import of_ranks, read_probe, run
from tcprobe.errors import MeasurementFailed, OutputError, TcprobeError, ToolError, UsageError
from tcprobe.flows.more_runs import SecondRun, finish_ranks
from tcprobe.flows.redact import NothingToRedact, redact
from tcprobe.flows.report import STEPS_AS, checked, make_report
from tcprobe.flows.workloads import Workload, find_workload, with_constants
from tcprobe.flows.write import destination, write_document, write_tables
from tcprobe.hardware import find_gpu
from tcprobe.masking import mask_text, mask_tree, secrets_in
from tcprobe.readers.run_folder.folder import how_ended
from tcprobe.report import RenderSpec
from tcprobe.report.doctor import lines_of
from tcprobe.report.document import ReportSpec
from tcprobe.report.run.document import RunDocument
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.records import as_dict

PRECISIONS: Final = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
RECORDED_TABLES: Final = (
    "ranks",
    "launches",
    "kernels",
    "ops",
    "host_ops",
    "graph_ops",
    "ranges",
    "steps",
    "metrics",
    "reported",
)
PAGE: Final = "report.html"  # of a run folder
TITLES: Final = {
    "tensorflow": "TensorFlow's profiler",
    "dlprof": "DLProf",
    "nsys": "Nsight Systems",
    "ncu": "Nsight Compute",
}

ONLY: Final = {
    "dlprof": "--key-node, --mode, --delay, --duration and --dlprof-args",
    "nsys": "--nsys-args and --with-xspace",
    "ncu": "--kernels and --launch-count",
}


class ProfileOptions(CaptureOptions, frozen=True):
    """What the user asked to profile, and how."""

    words: tuple[str, ...]  # the workload (a packaged name, a path, or ``-m module``) and its own arguments
    profiler: str = "auto"  # auto, or the name of a capture
    python: str | None = None  # the workload's interpreter; None takes tcprobe's own
    output: Path | None = None  # the run folder; None derives a name below ``tcprobe-runs``
    force: bool = False  # replace an earlier run folder
    target_gpu: str | None = None  # GPU for which blockers are judged if none ran
    # regular expression for the names of the ranges that are steps; None leaves that to the reader
    step_range: str | None = None
    key_node: dict[str, Any] | None = None  # how the key node was found, for run.json; None where nobody searched
    notes: tuple[Note, ...] = ()  # what is known of the run before it begins
    # names at the top of the script, and the literals that they are in this run, as Python writes them
    constants: tuple[tuple[str, str], ...] = ()
    share: bool = False  # let others read the run folder
    # take the environment out of what a profiler wrote once the run has ended; its own reports are deleted for that
    no_environment: bool = False


class ProfileOutcome(Struct, frozen=True):
    """The result of a profiled run."""

    folder: Path  # the run folder under its final name
    # exit code of the workload; None where a profiler around it ended badly and nobody knows it
    workload_code: int | None
    interrupted: bool  # whether the workload was interrupted
    report: Profile | None = None  # the analysed profile; None if `failure` says why there is none
    failure: TcprobeError | None = None  # why there is no report, or why its tables were not written
    cut: bool = False  # whether it was interrupted or another signal came that is sent to end something

    @property
    def exit_code(self) -> int:
        """Return the workload's own code if it failed, else 2 if the measurement failed, else 0."""
        return self.workload_code or (self.failure.exit_code if self.failure else 0)

    @property
    def ending(self) -> str:
        """Return how the workload failed, in a few words; empty if it did not."""
        metadata = self.report.metadata if self.report is not None else None
        partial = metadata is not None and any(note.code == "partial-run" for note in metadata.notes)
        return how_ended(metadata.run) if metadata is not None and partial else ""

    @property
    def recorded_nothing(self) -> bool:
        """Return whether nothing of the run was recorded, so that there is nothing to report again."""
        return self.report is None or not any(len(self.report.require(t)) for t in RECORDED_TABLES)

    @property
    def came_to_nothing(self) -> bool:
        """Return whether the workload failed before anything was recorded, so that a report would be empty."""
        return self.workload_code != 0 and self.report is not None and self.recorded_nothing


def profile(
    options: ProfileOptions, stdout_to_stderr: bool = False, say: Callable[[str], None] = lambda _: None
) -> ProfileOutcome:
    """Run a workload under a profiler and report on it.

    Args:
        options: what to run and how.
        stdout_to_stderr: move the workload's standard output to standard error.
        say: called with one line for each thing that happens.

    Raises:
        UsageError: an option or the workload makes no sense; nothing was started.
        InputError: the script cannot be used; nothing was started.
        ToolError: interpreter, launcher or profiler cannot be used; nothing was started.
        OutputError: the run folder cannot be written.
    """
    options = _checked(options)
    target, workload = find_workload(options.words)
    _check_tensorflow(options, workload)
    target = replace(target, label=mask_text(target.label), source=changed_source(target, options.constants))
    home = folder.make_folder(options.output, target.label, options.force, options.share)
    with folder.private_files() as umask:
        with ExitStack() as unstarted:
            unstarted.callback(folder.discard, home)
            request, said = behind(_request(options, target, workload, home.path, umask))
            if said:
                say(said)
            capture, why = choose_capture(options, request.target)
            launch = capture.prepare(request)
            asked = _asked(options, request, workload, capture.NAME)
            record = run_record.begin(request, launch, asked)
            folder.write_record(home.path, _masked(record, options))
            say(f"running {target.label} under {TITLES.get(capture.NAME, capture.NAME)}{f' ({why})' if why else ''}")
            if launch.keeps and not options.no_environment:
                say(
                    f"raw/{capture.NAME} of the run folder will hold {launch.keeps}: leave it out when you pass that on"
                )
            unstarted.pop_all()
        with signals.held() as came:
            ended = _run(request, launch, stdout_to_stderr, home, came)
            collected = _collected(capture, request, launch, ended, record, options)
            collected = replace(collected, notes=(*options.notes, *launch.notes, *collected.notes))
            whole = run_record.finish(record, ended, collected, read_probe(home.path), launch.wraps)
            code = whole["exit_code"] if whole["partial"] else 0
            if options.nsys.with_xspace:
                mask = partial(_masked, options=options)
                second = SecondRun(request, asked, mask, stdout_to_stderr, say)
                whole, ended, code = second.follow(whole, ended, code, came)
            final, full = _sealed(home, whole, options)
            if options.no_environment and launch.keeps:
                full = _without_environment(final, say) or full
        outcome = None
        try:
            outcome = ProfileOutcome(final, code, ended.interrupted, cut=ended.cut)
            outcome = _measured(_report(final, options, outcome), collected)
        finally:
            folder.set_modes(final, home.rights)
            if outcome is None:
                say(f"run folder kept: {final}")
    return replace(outcome, failure=full or outcome.failure)


def _masked(record: dict[str, Any], options: ProfileOptions) -> dict[str, Any]:
    """Return a record without the secrets of the command line."""
    known = secrets_in([*options.words, *options.launcher, *options.dlprof.args, *options.nsys.args])
    return dict(mask_tree(record, known))


def _collected(
    capture: Capture,
    request: CaptureRequest,
    launch: Launch,
    ended: process.Ended,
    record: dict[str, Any],
    options: ProfileOptions,
) -> Collected:
    """Gather what the profiler wrote, of each rank; a folder that cannot be read costs that and not the run."""
    try:
        if of_ranks(request):
            return finish_ranks(capture, request, launch, ended, record, partial(_masked, options=options))
        return capture.collect(request, ended.exit_code, ended.died_of)
    except OSError as error:
        return Collected(notes=(Note("unreadable-folder", f"{request.folder}: cannot be read: {error.strerror}"),))


def _sealed(
    home: folder.RunFolder, record: dict[str, Any], options: ProfileOptions
) -> tuple[Path, TcprobeError | None]:
    """Complete the record and name the folder; what cannot be done is returned, and the run counts as far as it is."""
    failure: TcprobeError | None = None
    if folder.was_replaced(home):
        record = {**record, "notes": [*record["notes"], as_dict(folder.REPLACED)]}
    try:
        whole = _masked(record, options)
        folder.write_last_record(home.path, whole, {**whole, "notes": [*whole["notes"], as_dict(folder.DISK_FULL)]})
    except OutputError as error:
        failure = error
    try:
        return folder.seal(home), failure
    except OutputError as error:
        return home.path, error


def _without_environment(home: Path, say: Callable[[str], None]) -> TcprobeError | None:
    """Take the environment out of what the profiler wrote, and say how far; return why some of it is left."""
    try:
        done = redact(home, delete=True)
    except NothingToRedact:
        return None
    except TcprobeError as error:
        return error
    for line in lines_of(done):
        say(line)
    return OutputError(f"{home}: --no-environment: some files still hold it", "tcprobe redact") if done.left else None


def _checked(options: ProfileOptions) -> ProfileOptions:
    """Refuse options that make no sense before anything starts; replace the GPU's name by its id."""
    start, stop = options.iter_start, options.iter_stop
    if start is not None and stop is not None and stop < start:
        raise UsageError(f"--iter-stop {stop} comes before --iter-start {start}", "swap the two")
    if options.ranks is not None and not options.launcher:
        raise UsageError("--ranks is for a job of ranks, and no --launcher starts one", 'add --launcher "mpirun -np 8"')
    sixteen = options.precision in ("mixed_float16", "mixed_bfloat16")
    if options.ranks is not None and (sixteen or options.constants):
        what = f"--precision {options.precision}" if sixteen else "the constants that are changed"
        raise UsageError(
            f"--ranks lets other ranks run plain, without {what}", "set it in the script, or leave --ranks out"
        )
    if of_ranks(options) and options.nsys.with_xspace:
        raise UsageError("--with-xspace is for a workload of one process", "leave it out, or --launcher")
    for pattern in options.metric_patterns:
        checked("--metric-pattern", pattern, r"as in --metric-pattern '(?P<name>loss)=(?P<value>[\d.]+)'")
    if options.step_range is not None:
        checked("--step-range", options.step_range, STEPS_AS)
    gpu = find_gpu(options.target_gpu).id if options.target_gpu else None
    return replace(options, target_gpu=gpu, python=_python(options))


def _python(options: ProfileOptions) -> str:
    """Return the interpreter: the one asked for, else tcprobe's own; a launcher that lacks it gets its own python3."""
    if options.python or not options.launcher:
        return options.python or sys.executable
    try:
        environment.ask_interpreter(sys.executable, options.launcher)
    except ToolError:
        return "python3"
    return sys.executable


def _check_tensorflow(options: ProfileOptions, workload: Workload | None) -> None:
    """Refuse an interpreter that does not start, or lacks TensorFlow for a packaged workload."""
    python = str(options.python)
    if environment.ask_interpreter(python, options.launcher).has_tensorflow or workload is None:
        return
    raise ToolError(
        f"{python}: has no TensorFlow, which {workload.name} needs",
        "pip install 'tcprobe[cpu]' (or [gpu]), or name an interpreter that has it: --python PATH",
    )


def changed_source(target: Invocation, constants: Sequence[tuple[str, str]]) -> bytes | None:
    """Return the text of a script with other constants; None where none is changed.

    Raises:
        UsageError: it is a module, or as `with_constants`.
        InputError: the script cannot be read, or is no Python.
    """
    if constants and target.kind != "script":
        raise UsageError(f"-m {target.name} is a module: constants are changed of a script", "name its file")
    return with_constants(Path(target.name), constants) if constants else None


def _request(
    options: ProfileOptions, target: Invocation, workload: Workload | None, home: Path, umask: int
) -> CaptureRequest:
    """Return the request; packaged workloads get precision and XLA as arguments, others through the probe."""
    precision, xla = options.precision, options.xla
    if workload is not None and precision and workload.takes("--precision"):
        target, precision = _with_argument(target, "--precision", precision), None
    if workload is not None and xla and workload.takes("--xla"):
        target, xla = _with_argument(target, "--xla"), None
    asked = {name: getattr(options, name) for name in CaptureOptions.__struct_fields__}
    asked |= {"precision": precision, "xla": xla}
    return CaptureRequest(target, home, str(options.python), umask, **asked)


def _with_argument(target: Invocation, name: str, *value: str) -> Invocation:
    """Put an argument before the workload's own arguments, which can then override it."""
    if _own_argument(target, name) is not None:
        return target
    return replace(target, args=(name, *value, *target.args))


def _own_argument(target: Invocation, name: str) -> str | None:
    """Return what follows `name` among the workload's arguments; empty if nothing does, None without `name`."""
    for place, word in enumerate(target.args):
        if word == name:
            return target.args[place + 1] if place + 1 < len(target.args) else ""
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def choose_capture(options: ProfileOptions, target: Invocation | None = None) -> tuple[Capture, str]:
    """Return the profiler, as `choose` has it, and why it is taken; empty where it was asked for.

    Raises:
        UsageError: an option of another profiler was given.
        ToolError: the interpreter cannot be started.
    """
    asked = [name for name in ONLY if (given := getattr(options, name)) != type(given)()]
    python = options.python or sys.executable
    choice = choose(options.profiler, asked, python, options.launcher, target)
    name = choice.name
    for other in asked:
        if other != name:
            raise UsageError(
                f"{ONLY[other]} are for {TITLES[other]}", f"leave them out, or --profiler {other} instead of {name}"
            )
    return next(capture for capture in CAPTURES if name == capture.NAME), choice.why


def _asked(
    options: ProfileOptions, request: CaptureRequest, workload: Workload | None, profiler: str
) -> dict[str, Any]:
    own = _own_argument(request.target, "--precision") if workload else None
    own_xla = workload is not None and _own_argument(request.target, "--xla") is not None
    return {
        "workload": " ".join(options.words[:2]) if options.words[0] == "-m" else options.words[0],
        "profiler": profiler,
        "precision": own if own in PRECISIONS else options.precision,
        "xla": True if own_xla else options.xla,
        "target_gpu": options.target_gpu,
        "step_range": options.step_range,
        "numerics": options.numerics or None,
        "key_node": options.key_node,
        "constants": dict(options.constants) or None,
    }


def _run(
    request: CaptureRequest, launch: Launch, stdout_to_stderr: bool, home: folder.RunFolder, came: list[int]
) -> process.Ended:
    """Run the workload; one that cannot be started leaves no folder, and any other keeps it whatever happens."""
    watch = process.progress_watcher(request.folder)
    try:
        return run(request, launch, stdout_to_stderr, watch, came)
    except ToolError:
        folder.discard(home)
        raise


def _measured(outcome: ProfileOutcome, collected: Collected) -> ProfileOutcome:
    """Fail a run without kernels if the profiler says what it lacks, unless the run is known to have used no GPU.

    Fail one of which nobody knows how it ended.
    """
    report, lacks = outcome.report, next((n for n in collected.notes if n.level == "error"), None)
    if report is None or outcome.failure:
        return outcome
    if lacks is not None and report.metadata.gpu_used is not False and not len(report.require("kernels")):
        return replace(outcome, failure=MeasurementFailed(lacks.message, lacks.remedy))
    if outcome.workload_code is None:
        return replace(outcome, failure=MeasurementFailed(outcome.ending, "see what the workload printed"))
    return outcome


def _report(home: Path, options: ProfileOptions, outcome: ProfileOutcome) -> ProfileOutcome:
    """Report on a run folder; if that fails, what is known of the run stays."""
    try:
        report = make_report(home, Options(target_gpu=options.target_gpu, timeline=True))  # run.json has --step-range
    except TcprobeError as error:
        return replace(outcome, failure=error)
    try:
        write_tables(RunDocument(report, ReportSpec()), home / "tables", force=True)
        write_document(
            RunDocument(report, ReportSpec(web=True)),
            RenderSpec(),
            destination("run", "html", str(home / PAGE), force=True),
        )
    except TcprobeError as error:
        return replace(outcome, report=report, failure=error)
    return replace(outcome, report=report)
