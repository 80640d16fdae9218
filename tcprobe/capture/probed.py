"""Put the probe into a run folder and start a workload through it, for every capture that uses the probe."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tcprobe.bypath import PROBE
from tcprobe.capture import environment
from tcprobe.capture.base import CaptureOptions, CaptureRequest, Collected, Launch
from tcprobe.capture.environment import NAMED_OPS, PROBE_SINCE, PythonInfo
from tcprobe.capture.gpu_state import Watch
from tcprobe.capture.launchers import starts_ranks
from tcprobe.capture.process import Ended, Watcher, run_workload
from tcprobe.capture.program import Build
from tcprobe.capture.signals import processes
from tcprobe.errors import ToolError, writing
from tcprobe.jsonfile import read_object
from tcprobe.masking import mask_words, secrets_in
from tcprobe.probe.constants import (
    ASIDE,
    LAUNCH,
    OTHERS,
    SKIPPED_STEPS,
    WINDOW_BYTES,
    WINDOW_SECONDS,
    WINDOW_STEPS,
    WORDS,
)
from tcprobe.schema.profile import Note
from tcprobe.visible import pass_on

CONFIG: Final = "config.json"
CHANGED: Final = "script.py"
"""The script as it runs, where that is not as its file has it."""


def install_probe(request: CaptureRequest, profile: bool, **other: Any) -> tuple[str, ...]:
    """Copy the probe into the run folder, write its orders, and return the command that runs the workload through it.

    Args:
        request: what to capture; its folder has ``probe/`` and ``raw/``.
        profile: whether the probe chooses a window, or only watches beside another profiler.
        other: orders in place of the usual ones.

    Raises:
        OutputError: the folder cannot be written.
        ToolError: this installation of tcprobe lacks its probe.
    """
    home = request.folder / "probe"
    with writing(home):
        wanted = {**orders(request, profile), **other}
        command = PROBE.command(request.python, home / "src", wanted, home / CONFIG, link=False)
        if request.target.source is not None:
            (home / CHANGED).write_bytes(request.target.source)
        if wanted["masked"]:
            _hand_over(home / WORDS, request.target.args)
    return command


def launched(request: CaptureRequest, chosen: dict[str, str], command: Sequence[str], **more: Any) -> Launch:
    """Say how to start a command with the variables chosen for it; `more` are further fields of the launch.

    Where the launcher starts ranks, each finds out which it is and starts the command in a folder of its own.

    Raises:
        OutputError: the folder cannot be written.
    """
    if of_ranks(request) and (request.folder / "probe" / CONFIG).is_file():
        command = _of_each_rank(request, command)
        more = {**more, "workload": None}  # signals are for all: the launcher passes them on
        if request.device is None:  # which GPU is whose, launcher and script settle
            chosen = {name: value for name, value in chosen.items() if name != "CUDA_VISIBLE_DEVICES"}
    # A launcher may start with a clean environment (a container, ssh): `env` sets ours on its far side.
    inside = ("env", *(f"{name}={value}" for name, value in chosen.items())) if request.launcher else ()
    return Launch((*request.launcher, *inside, *command), chosen, **more)


def of_ranks(request: CaptureOptions) -> bool:
    """Return whether a run is of the ranks of a job: its launcher starts such, or some of them were named."""
    return request.ranks is not None or starts_ranks(request.launcher)


def _of_each_rank(request: CaptureRequest, command: Sequence[str]) -> tuple[str, ...]:
    home = request.folder / "probe"
    ranks = None if request.ranks is None else list(request.ranks)
    orders = {"folder": str(request.folder), "command": list(command), "python": request.python, "ranks": ranks}
    with writing(home):
        (home / LAUNCH).write_text(json.dumps(orders, indent=1) + "\n", encoding="utf-8")
    return (request.python, str(home / "src" / PROBE.name), str(home / LAUNCH))


def launched_below(
    profiler: Sequence[str],
    build: Build,
    request: CaptureRequest,
    unprobed: Unprobed | None,
    tensorflow: str | None,
    orders: Mapping[str, Any],
    **more: Any,
) -> Launch:
    """Say how to start a workload below a profiler, with the probe beside it where that can run.

    Args:
        profiler: its command line up to the workload.
        build: the profiler.
        request: what to capture.
        unprobed: why the probe cannot run; None if it can.
        tensorflow: its version in the workload's interpreter, as far as it counts.
        orders: of `install_probe`.
        more: further fields of the launch.
    """
    chosen = environment.variables(request.precision, request.xla, request.device, tensorflow) | {NAMED_OPS: "1"}
    workload = unwatched(request, unprobed) if unprobed else install_probe(request, **orders)
    own = "and its arguments, " if unprobed else ""  # the probe has them from a file, which no profiler sees
    return launched(
        request,
        chosen,
        (*profiler, *workload),
        workload=partial(workload_below, request.folder, workload),
        profiler_version=build.version,
        wraps=True,
        notes=(unprobed.note,) if unprobed else (),
        keeps=f"the whole environment of the workload, {own}passwords included",  # no option of nsys leaves that out
        **more,
    )


def collected(
    request: CaptureRequest,
    files: Iterable[Path],
    notes: Iterable[Note],
    probe: Mapping[str, object],
    exit_code: int,
    own: int | None,
) -> Collected:
    """Return what a profiler around the workload wrote, with what the probe says of the run.

    Args:
        request: what was captured.
        files, notes: of the profiler's.
        probe: probe.json.
        exit_code: that of the profiler.
        own: the workload's; None where it is not known.
    """
    ended = unfinished(probe, exit_code if own is None else own)
    return Collected(tuple(files), (*notes, *other_processes(request.folder), *ended), own)


def filled(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files that are there and hold something, sorted."""
    return tuple(sorted(path for path in paths if _size(path) > 0))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


class Unprobed(NamedTuple):
    """Why the probe cannot run beside a profiler."""

    why: str

    @property
    def note(self) -> Note:
        """Say what the run will lack."""
        message = f"the probe did not watch this run: {self.why}: no layers, source lines and badly sized layers"
        return Note("no-probe", message)


def why_no_probe(request: CaptureRequest) -> Unprobed | None:
    """Return why the probe cannot run beside a profiler; None if it can."""
    holds = environment.ask_interpreter(request.python, request.launcher)
    return None if holds.runs_probe else Unprobed(f"the workload's interpreter {no_probe_in(holds)}")


def unwatched(request: CaptureRequest, unprobed: Unprobed) -> tuple[str, ...]:
    """Return the command that runs the workload without the probe.

    Raises:
        ToolError: the precision that was asked for is the probe's to set.
    """
    if request.precision in ("mixed_float16", "mixed_bfloat16"):
        raise ToolError(
            f"{request.precision} is set by the probe, which cannot run here: {unprobed.why}",
            "set the policy in the script, or profile with --profiler tensorflow",
        )
    if request.target.source is not None:
        raise ToolError(f"constants are changed by the probe, which cannot run here: {unprobed.why}")
    module = ("-m",) if request.target.kind == "module" else ()
    return (request.python, *module, request.target.name, *request.target.args)


def no_probe_in(holds: PythonInfo) -> str:
    """Return why an interpreter cannot run the probe, which is too old for it."""
    return f"is Python {holds.python}; the probe needs {'.'.join(map(str, PROBE_SINCE))} or later"


def orders(request: CaptureRequest, profile: bool) -> dict[str, object]:
    """Return the content of config.json, described in docs/run-folder.md."""
    argv = mask_words(request.target.args)
    return {
        "schema": 1,
        "out": str(request.folder / "probe"),
        "raw": str(request.folder / "raw"),
        "target": [request.target.kind, request.target.name],
        "source": None if request.target.source is None else str(request.folder / "probe" / CHANGED),
        "argv": list(argv),
        "masked": _masked(request, argv),
        "profile": profile,
        "nvtx": profile,  # another profiler's own ranges stay as they are
        "tool": False,
        "iter_start": request.iter_start,
        "iter_stop": request.iter_stop,
        "window_steps": WINDOW_STEPS,
        "window_seconds": WINDOW_SECONDS,
        "window_bytes": WINDOW_BYTES,
        "precision": request.precision,
        "xla": request.xla,
        "step_function": request.step_function,
        "metric_patterns": list(request.metric_patterns),
        "numerics": request.numerics,
        "steps_min_skip": SKIPPED_STEPS,
    }


def _masked(request: CaptureRequest, argv: Sequence[str]) -> list[int]:
    """Return the places of the words that `argv` does not have as they are."""
    return [place for place, word in enumerate(request.target.args) if argv[place] != word]


def _hand_over(path: Path, args: Sequence[str]) -> None:
    """Write the real words of a command line for the probe; `run` removes them when the run has ended.

    A file reaches every process of a launcher, late and restarted ones too. What stands in the environment or on a
    command line, Nsight Systems writes into its reports.
    """
    path.touch(0o600)
    path.write_text(json.dumps({"argv": list(args), "secrets": secrets_in(args)}), encoding="utf-8")


def run(
    request: CaptureRequest, launch: Launch, stdout_to_stderr: bool, watch: Watcher | None, came: list[int]
) -> Ended:
    """Run a workload that the probe may watch until it ends, and leave no secret of its command line behind.

    Args:
        request: what is captured.
        launch: how it is started.
        stdout_to_stderr, watch: as of `run_workload`.
        came: signals that were held until now, and are the workload's; emptied.

    Raises:
        ToolError: it cannot be started.
    """
    gpus = Watch(direct=not request.launcher).start()
    try:
        ended = run_workload(
            launch, stdout_to_stderr, watch, lambda: running(request.folder) is not None, request.umask, came
        )
        return replace(ended, gpus=gpus)
    finally:
        gpus.stop()
        if launch.aside is not None:
            _show_rest(launch.aside)
        with suppress(OSError):  # the folder was moved away or is read-only: reports say that the file is there
            (request.folder / "probe" / WORDS).unlink(missing_ok=True)


def make_aside() -> int | None:
    """Return a file in memory for `Launch.aside`; None where the system has none."""
    try:
        aside = os.memfd_create(ASIDE)
        fcntl.fcntl(aside, fcntl.F_SETFL, os.O_APPEND)  # it is emptied between writes
    except (AttributeError, OSError):
        return None
    return aside


def _show_rest(aside: int) -> None:
    """Show what a workload that died had no time to sort, as it is, and close the file."""
    with suppress(OSError), open(aside, "rb") as file:
        file.seek(0)
        pass_on(file.read())


def other_processes(folder: Path) -> Iterator[Note]:
    """Say how many processes the probe ran in besides the one that the run folder is of."""
    count = sum(1 for _ in (folder / "probe" / OTHERS).glob("*"))
    if count:
        yield Note(
            "several-processes",
            f"{count} more process{'es' if count > 1 else ''} ran beside the first one, of which alone the report is",
            "profile one process, or each with a tcprobe of its own",
        )


def read_probe(folder: Path) -> dict[str, object]:
    """Return probe.json of a run folder; empty if there is none or it is damaged."""
    return read_object(folder / "probe" / "probe.json")


def unfinished(probe: Mapping[str, object], exit_code: int | None) -> Iterator[Note]:
    """Say so if a workload ended well and the probe could not write how: its last steps are missing.

    Args:
        probe: probe.json.
        exit_code: the workload's own; None where it is not known.
    """
    if exit_code == 0 and probe.get("finished") is False:
        yield Note(
            "probe-unfinished",
            "the probe could not write the end of the run: the last steps and figures may be missing",
            "let the workload keep the right to write into the run folder, and end by itself or by sys.exit",
        )


def running(folder: Path) -> int | None:
    """Return the process of the workload that the probe of a run folder watches now; None where this cannot be told.

    It outlives the command that was started where that is a profiler or a launcher, and is killed.
    """
    pid = read_probe(folder).get("pid")
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None  # it has ended, or there is no /proc here, or it runs on another machine
    return pid if isinstance(pid, int) and os.fsencode(folder / "probe" / CONFIG) in words else None


def workload_below(folder: Path, words: Sequence[str], command: int) -> list[int] | None:
    """Return the processes of a workload that a profiler has started; none once it has ended, None before it began.

    Args:
        folder: the run folder.
        words: the workload's own command line.
        command: the process of the profiler, or of its launcher.
    """
    if there := list(processes(words, command)):
        return there
    if (left := running(folder)) is not None:  # its profiler was killed
        return [left]
    return [] if read_probe(folder) else None
