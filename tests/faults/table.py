"""The faults of a run under `tcprobe profile`, as data: docs/reliability.md is written from it, the tests are its rows.

To add a fault: a row below. Its test is a function of a module beside this one, parametrized by `cases("module.test")`;
it takes the row as its argument and may look up what it needs by `fault.name`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, unique
from functools import cache
from typing import Final

import pytest


@unique
class Kept(Enum):
    """What is left of a run, in words; `kept.py` holds the check of each."""

    WHOLE = "everything"
    FIRST_PROCESS = "what the first process did"
    STEPS = "all steps; of the figures those that were logged since"
    UNTIL_THEN = "all until then; `run.json` says how it ended"
    FLUSHED = "steps and figures older than a second; `run.json` says how it ended"
    UNTOLD = "steps and figures older than a second; `run.json` says that the workload's exit code is not known"
    AFTERWARDS = "everything, in a folder under its temporary name"
    ALL_FILES = "all files"
    NOT_BEGUN = "what there was: the workload had not started"
    NOTHING = "nothing: no folder is left"
    NO_ENDING = "steps and figures older than a second, in a folder that says it is partial"
    CUT = "all until then"
    MOVED = "all until then, under the name that the folder has now"
    EACH = "everything of each"
    NOT_STARTED = "nothing: the workload was not started"


@dataclass(frozen=True, slots=True)
class Need:
    """What a test needs of the machine.

    Attributes:
        words: completes "tested where ...".
        met: says whether this machine has it.
    """

    words: str
    met: Callable[[], bool]


ROOT: Final = Need("the tests run as root", lambda: os.geteuid() == 0)


def _mounts() -> bool:
    """Say whether file systems can be mounted here: root in a container often may not."""
    with tempfile.TemporaryDirectory() as place:
        done = [
            subprocess.run(command, capture_output=True, check=False).returncode
            for command in (["mount", "-t", "tmpfs", "tmpfs", place], ["umount", place])
            if shutil.which(command[0])
        ]
    return done == [0, 0]


MOUNTS: Final = Need("small file systems can be mounted", cache(_mounts))


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, what tcprobe does then, and what is left of the run.

    Attributes:
        name: id of its test.
        what: the fault.
        does: what tcprobe does, and what the user reads.
        kept: what is left of the run.
        test: the test that shows it, ``module.function`` of this folder.
        needs: what its test needs; elsewhere it is skipped.
    """

    name: str
    what: str
    does: str
    kept: Kept
    test: str
    needs: Need | None = None


_BADLY: Final = "test_killed.test_a_workload_that_ends_badly"
KILLED: Final = (
    Fault(
        "workload-sigkill",
        "the workload is killed (`kill -9`, the kernel's OOM killer)",
        "reports on what was recorded, says `the workload was ended by SIGKILL`, exits with 137",
        Kept.FLUSHED,
        _BADLY,
    ),
    Fault(
        "workload-kills-its-group",
        "the workload kills its whole process group",
        "is not in that group where there is no terminal: as above",
        Kept.FLUSHED,
        _BADLY,
    ),
    Fault(
        "workload-crashes",
        "the workload crashes in native code (SIGSEGV)",
        "as above, with SIGSEGV and 139",
        Kept.FLUSHED,
        _BADLY,
    ),
    Fault(
        "workload-aborts",
        "the workload aborts (SIGABRT: a failed check of a library)",
        "as above, with SIGABRT and 134",
        Kept.FLUSHED,
        _BADLY,
    ),
    Fault(
        "workload-out-of-memory",
        "the workload runs out of memory (MemoryError)",
        "reports on what was recorded, below the workload's own traceback; exits with 1",
        Kept.UNTIL_THEN,
        _BADLY,
    ),
    Fault(
        "workload-exits-at-once",
        "the workload leaves by `os._exit(4)`",
        "reports on what was recorded, exits with 4",
        Kept.UNTIL_THEN,
        _BADLY,
    ),
    Fault(
        "tcprobe-sigkill",
        "tcprobe is killed, the workload is not",
        "the workload goes on and the probe with it; `tcprobe report tcprobe-runs` finds the folder, now or later, "
        "says how the workload ended and how to give the folder its name; beside other runs it is named",
        Kept.AFTERWARDS,
        "test_killed.test_a_killed_tcprobe",
    ),
    Fault(
        "all-sigkill",
        "tcprobe and the workload are killed (a job that is over its time, a host that goes down)",
        "`tcprobe report tcprobe-runs` finds the folder and says that the ending is not known",
        Kept.NO_ENDING,
        "test_killed.test_all_is_killed",
    ),
    Fault(
        "killed-while-starting",
        "tcprobe is killed at any moment before the workload has started",
        "`tcprobe report` says that `run.json` is missing, or that the ending is not known",
        Kept.NOT_BEGUN,
        "test_killed_at_any_call.test_a_run_that_never_began",
    ),
    Fault(
        "killed-while-sealing",
        "tcprobe is killed at any moment while it writes how the run ended and gives the folder its name",
        "nothing is half-written: `run.json` is the first or the last one, and the folder has either name",
        Kept.ALL_FILES,
        "test_killed_at_any_call.test_the_run_is_there_whole_or_partial",
    ),
    Fault(
        "killed-while-replacing",
        "the same with `--force`, which replaces an earlier run",
        "the earlier run stays until the new one is whole",
        Kept.ALL_FILES,
        "test_killed_at_any_call.test_the_run_is_there_whole_or_partial",
    ),
    Fault(
        "workload-killed-while-writing",
        "the workload is killed at any moment while the probe writes",
        "what the probe had written before stays readable",
        Kept.FLUSHED,
        "test_killed_at_any_call.test_what_the_probe_flushed_stays",
    ),
    Fault(
        "profiler-killed-late",
        "DLProf is killed after the workload has ended, while it writes its reports",
        "says that DLProf wrote nothing, reports what the probe recorded, exits with 2",
        Kept.WHOLE,
        "test_killed.test_a_profiler_killed_after_the_workload",
    ),
    Fault(
        "profiler-sigkill",
        "DLProf is killed, the workload is not",
        "waits for the workload to end, says that DLProf wrote nothing, reports what the probe recorded, exits with 2",
        Kept.WHOLE,
        "test_killed.test_a_killed_profiler",
    ),
)

_ALONE: Final = "test_signals.test_a_signal_without_a_terminal"
SIGNALS: Final = (
    Fault(
        "ctrl-c",
        "Ctrl-C",
        "waits for the workload, which gets it from the terminal too, and reports; exits with the workload's own code",
        Kept.UNTIL_THEN,
        "test_signals.test_ctrl_c",
    ),
    Fault(
        "ctrl-c-twice",
        "Ctrl-C again: the workload ignores it",
        "terminates it (SIGTERM), and reports",
        Kept.FLUSHED,
        "test_signals.test_ctrl_c",
    ),
    Fault(
        "ctrl-c-thrice",
        "Ctrl-C a third time: the workload ignores SIGTERM too",
        "kills it, and reports",
        Kept.FLUSHED,
        "test_signals.test_ctrl_c",
    ),
    Fault(
        "terminal-closed",
        "the terminal is closed (SIGHUP)",
        "waits for the workload, which gets the signal too, and writes the tables of the report",
        Kept.FLUSHED,
        "test_signals.test_the_terminal_is_closed",
    ),
    Fault(
        "terminal-closed-nohup",
        "the terminal is closed, under `nohup`",
        "goes on, and the workload with it; writes the tables of the report at the end",
        Kept.WHOLE,
        "test_signals.test_the_terminal_is_closed",
    ),
    Fault("sigterm", "SIGTERM to tcprobe (a scheduler)", "passes it on, waits, reports", Kept.FLUSHED, _ALONE),
    Fault("sighup", "SIGHUP to tcprobe in the background", "passes it on, waits, reports", Kept.FLUSHED, _ALONE),
    Fault("sigquit", "SIGQUIT to tcprobe", "passes it on, waits, reports", Kept.FLUSHED, _ALONE),
    Fault("sigusr1", "SIGUSR1 or SIGUSR2 to tcprobe", "passes it on, waits, reports", Kept.FLUSHED, _ALONE),
    Fault(
        "own-handlers",
        "the workload handles signals itself (a checkpoint at SIGUSR1, a clean end at SIGTERM)",
        "passes each on once; the exit code is the workload's own",
        Kept.UNTIL_THEN,
        "test_signals.test_the_workloads_own_handlers",
    ),
    Fault(
        "ignored-signals",
        "SIGTERM or SIGHUP to tcprobe: the workload ignores it",
        "says that it waits for the workload to end, and does; the run counts as partial: it may have been cut",
        Kept.UNTIL_THEN,
        "test_signals.test_a_workload_that_ignores_signals",
    ),
    Fault(
        "ctrl-z",
        "Ctrl-Z, and `fg` later",
        "stops and goes on with the workload; the step that was cut has no length, and a note says so",
        Kept.WHOLE,
        "test_signals.test_stop_and_continue",
    ),
    Fault(
        "sigtstp",
        "SIGTSTP and SIGCONT to tcprobe without a terminal",
        "stops the workload and itself, and both go on; steps as above",
        Kept.WHOLE,
        "test_signals.test_stop_and_continue",
    ),
    Fault(
        "ctrl-c-early",
        "Ctrl-C before the workload was started",
        "exits with 130",
        Kept.NOTHING,
        "test_signals.test_an_interrupt_before_the_workload_starts",
    ),
    Fault(
        "sigchld-ignored",
        "tcprobe is started by a program that ignores how its children end (SIGCHLD)",
        "nothing: the exit code is the workload's own",
        Kept.UNTIL_THEN,
        "test_signals.test_a_parent_that_ignores_how_children_end",
    ),
    Fault(
        "signals-while-sealing",
        "Ctrl-C or SIGTERM while tcprobe writes how the run ended",
        "completes the folder first, then ends",
        Kept.WHOLE,
        "test_signals.test_signals_while_the_folder_is_sealed",
    ),
)

_PROFILERS: Final = "test_signals_under_profilers.test_sigterm_under_each_profiler"
PROFILED: Final = (
    Fault(
        "signal-too-early",
        "SIGTERM to tcprobe as it is about to start profiler and workload",
        "sends it to the workload as soon as that is there; exits with 143",
        Kept.NOT_BEGUN,
        "test_signals_under_profilers.test_a_signal_before_anything_has_started",
    ),
    Fault(
        "sigterm-before-the-probe",
        "SIGTERM, SIGINT, SIGHUP, SIGQUIT or SIGUSR1 to tcprobe before the probe runs",
        "sends it to the workload alone; exits with 143, or 128 + n",
        Kept.NOT_BEGUN,
        _PROFILERS,
    ),
    Fault("sigterm-in-imports", "the same, while the workload imports", "as above", Kept.UNTIL_THEN, _PROFILERS),
    Fault(
        "sigterm-in-the-window",
        "the same, while the profiler records",
        "as above; the profiler writes what it has",
        Kept.UNTIL_THEN,
        _PROFILERS,
    ),
    Fault(
        "sigterm-while-it-writes",
        "the same, while the profiler writes",
        "as above; DLProf, whose workload has ended by then, gets it itself and writes nothing: exits with 2",
        Kept.UNTIL_THEN,
        _PROFILERS,
    ),
    Fault(
        "sigterm-handled-under-a-profiler",
        "the same; the workload handles it and ends by itself, also with 0",
        "exits with the workload's own code; `run.json` names the signal and says that the run is partial",
        Kept.UNTIL_THEN,
        _PROFILERS,
    ),
    Fault(
        "ending-unknown",
        "the workload dies of something else after a signal to tcprobe, and the profiler does not tell of what",
        "says that nobody knows whether the workload failed, exits with 2",
        Kept.UNTOLD,
        "test_signals_under_profilers.test_an_ending_that_nobody_knows",
    ),
)

_PROCESS: Final = "test_workloads.test_a_workload_that_changes_its_process"
WORKLOADS: Final = (
    Fault("forks", "it forks", "records the first process; a child is no run of its own", Kept.WHOLE, _PROCESS),
    Fault(
        "becomes-a-daemon",
        "it makes itself a daemon, and trains in there",
        "exits with the first process; a note says that what its children did was not recorded",
        Kept.FIRST_PROCESS,
        _PROCESS,
    ),
    Fault(
        "execs",
        "it replaces itself by another program (`os.exec…`)",
        "waits for that program, whose exit code counts; a note says that it was not recorded",
        Kept.UNTIL_THEN,
        _PROCESS,
    ),
    Fault("exits-in-a-thread", "`sys.exit` in a thread", "nothing: the workload goes on", Kept.WHOLE, _PROCESS),
    Fault(
        "closes-its-streams",
        "it closes standard input, output and error, and every other file",
        "nothing: the workload goes on",
        Kept.WHOLE,
        _PROCESS,
    ),
    Fault(
        "moves",
        "it changes its working directory, which is then removed",
        "nothing: the workload goes on",
        Kept.WHOLE,
        _PROCESS,
    ),
    Fault(
        "forgets-its-environment", "it empties its environment", "nothing: the workload goes on", Kept.WHOLE, _PROCESS
    ),
    Fault(
        "clock-set-back",
        "the clock is set back by years",
        "nothing: times are of a clock that never goes back",
        Kept.WHOLE,
        _PROCESS,
    ),
    Fault(
        "removes-what-the-probe-wrote",
        "it removes the probe's folder",
        "writes the steps anew; a note says that figures logged before are lost",
        Kept.STEPS,
        _PROCESS,
    ),
    Fault(
        "exits-with-a-large-code",
        "it exits with a code above 128 that is no signal's",
        "says `the workload failed with exit code 200`",
        Kept.UNTIL_THEN,
        _PROCESS,
    ),
    Fault(
        "child-outlives",
        "it leaves a child that runs on and holds standard output open",
        "does not wait for that child",
        Kept.WHOLE,
        "test_workloads.test_a_child_that_outlives_its_workload",
    ),
)

_DISK = "test_storage.test_a_disk_that_takes_no_more"
_FOLDER = "test_storage.test_a_run_folder_that_is_taken_away"
STORAGE: Final = (
    Fault(
        "disk-full",
        "no space is left on the disk while the workload runs",
        "lets it run; 256 kB are kept for the last files of the run, which otherwise say `disk-full`",
        Kept.UNTIL_THEN,
        _DISK,
        MOUNTS,
    ),
    Fault(
        "disk-full-to-the-last",
        "the same, and the workload takes what was kept too",
        "lets it run, says `No space left on device`; the workload's own exit code",
        Kept.CUT,
        "test_storage.test_a_disk_without_room_for_the_record",
        MOUNTS,
    ),
    Fault(
        "read-only",
        "the file system becomes read-only while the workload runs",
        "lets it run, reports what it has, names the folder's temporary name; the workload's own exit code",
        Kept.NO_ENDING,
        _DISK,
        MOUNTS,
    ),
    Fault(
        "permission-lost",
        "the permission to write is lost while the workload runs",
        "the same",
        Kept.NO_ENDING,
        "test_storage.test_a_permission_that_is_lost",
    ),
    Fault(
        "file-size-limit",
        "files may only be small (`ulimit -f`)",
        "lets it run, names the file and `File too large`; exits with 2 where the tables cannot be written",
        Kept.CUT,
        "test_storage.test_files_that_may_only_be_small",
    ),
    Fault(
        "no-inodes",
        "the disk takes no more files before the workload starts",
        "refuses, names it, points to `df -i`, exits with 2",
        Kept.NOT_STARTED,
        "test_storage.test_a_disk_without_inodes",
        MOUNTS,
    ),
    Fault(
        "folder-renamed",
        "the run folder is removed or renamed while the workload runs, and nothing is written afterwards",
        "says that it is gone, and how to report it; the workload's own exit code",
        Kept.MOVED,
        _FOLDER,
    ),
    Fault(
        "folder-linked",
        "the run folder is moved away, and a link put in its place",
        "follows the link, which gets the final name",
        Kept.UNTIL_THEN,
        _FOLDER,
    ),
    Fault(
        "two-at-once",
        "two runs have the same name, with `--force` too",
        "names the later one `NAME-2`; `--force` replaces the run that was there at the start and none that came since",
        Kept.EACH,
        "test_storage.test_two_at_once",
    ),
    Fault(
        "several-processes",
        "a launcher that starts no ranks starts several processes of the workload in one run",
        "records the first; the others write to `probe/others/PID`, which no report reads; a note says how many",
        Kept.WHOLE,
        "test_storage.test_several_processes_in_one_run",
    ),
    Fault(
        "nothing-recorded",
        "the workload does nothing that can be recorded",
        "says what is missing and where the folder is, and does not propose to report it again",
        Kept.WHOLE,
        "test_storage.test_a_run_that_recorded_nothing",
    ),
    Fault(
        "flood",
        "the workload prints faster than 250 kB/s",
        "passes all of it on, searches a part for logged figures, says so (`flood`)",
        Kept.WHOLE,
        "test_storage.test_a_flood_of_output",
    ),
)

FAULTS: Final[dict[str, tuple[Fault, ...]]] = {
    "Something is killed or crashes": KILLED,
    "Signals and terminals": SIGNALS,
    "Signals to tcprobe under a profiler: TensorFlow's, Nsight Systems, DLProf": PROFILED,
    "The workload does something to its own process": WORKLOADS,
    "The disk, the run folder, the output": STORAGE,
}
"""The rows, under the headings of the page."""


def cases(test: str) -> list[object]:
    """Return the faults of a test, as arguments for `pytest.mark.parametrize`; one whose need is not met is skipped."""
    return [
        pytest.param(
            fault,
            id=fault.name,
            marks=pytest.mark.skipif(
                fault.needs is not None and not fault.needs.met(), reason=f"needs: {fault.needs and fault.needs.words}"
            ),
        )
        for faults in FAULTS.values()
        for fault in faults
        if fault.test == test
    ]
