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
    UNTIL_THEN = "all until then; `run.json` says how it ended"
    FLUSHED = "steps and figures older than a second; `run.json` says how it ended"
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


KILLED: Final = (
    Fault(
        "workload-sigkill",
        "the workload is killed (`kill -9`, out of memory)",
        "reports on what was recorded, says `the workload was ended by SIGKILL`, exits with 137",
        Kept.FLUSHED,
        "test_killed.test_a_killed_workload",
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
        "a launcher starts several processes of the workload in one run",
        "records the first; others write to `probe/others/PID`, which no report reads; a note says how many ran",
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
    "Something is killed": KILLED,
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
