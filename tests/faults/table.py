"""The faults of a run under `tcprobe profile`, as data: docs/reliability.md is written from it, the tests are its rows.

To add a fault: a row below. Its test is a function of a module beside this one, parametrized with `cases("module.test")`;
it takes the row as its argument and may look up what it needs by `fault.name`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, unique
from typing import Final

import pytest


@unique
class Kept(Enum):
    """What is left of a run, in words; `kept.py` holds the check of each."""

    WHOLE = "everything"
    UNTIL_THEN = "all until then; `run.json` says how it ended"
    FLUSHED = "steps and figures older than a second; `run.json` says how it ended"
    NO_ENDING = "steps and figures older than a second, in a folder that says it is partial"


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

FAULTS: Final[dict[str, tuple[Fault, ...]]] = {
    "Something is killed": KILLED,
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
