"""A kill at each system call with which a run folder is written: what was there before is there, and can be read."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tcprobe.capture import folder
from tcprobe.errors import EmptyInput
from tcprobe.flows.report import make_report
from tcprobe.jsonfile import read_object
from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.core.journal import Journal
from tcprobe.readers.run_folder.steps import read_metrics, read_steps
from tests.faults.table import Fault, Kept, cases

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "shutil.rmtree"}
"""Audit events of the calls that change a folder."""
BEGUN = {"tcprobe": "0.1.0", "run": "new", "exit_code": None, "partial": True}
ENDED = {**BEGUN, "exit_code": 0, "partial": False}


def killed_at(call: int, work: Callable[[], object]) -> bool:
    """Run `work` in a fork that is killed at its call number `call`; return whether it came so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        counted = itertools.count()

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            if event in EVENTS and next(counted) == call:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def begun(final: Path, force: bool, record: dict[str, Any]) -> folder.RunFolder:
    """Make the folder of a run that has started."""
    made = folder.make_folder(final, "train", force)
    folder.write_record(made.path, record)
    (made.path / "probe/steps.csv").touch()
    return made


def whole(home: Path) -> dict[str, Path]:
    """Return the run folders that have all their files, by the name in their records."""
    found = [path.parent for path in home.glob("*/run.json") if (path.parent / "probe/steps.csv").exists()]
    return {json.loads((path / "run.json").read_text())["run"]: path for path in found}


@pytest.mark.parametrize("fault", cases("test_killed_at_any_call.test_the_run_is_there_whole_or_partial"))
def test_the_run_is_there_whole_or_partial(fault: Fault, tmp_path: Path) -> None:
    force = fault.name == "killed-while-replacing"
    for call in itertools.count():
        final = tmp_path / str(call) / "run"
        if force:
            folder.seal(begun(final, False, {**ENDED, "run": "old"}))
        made = begun(final, force, BEGUN)

        def end(made: folder.RunFolder = made) -> None:
            folder.write_record(made.path, ENDED)
            folder.seal(made)

        came = killed_at(call, end)
        found = whole(final.parent)
        assert found["new"] == final or ("old" in found) is force
        assert found["new"] in (final, made.path)
        if not came:
            assert found == {"new": final} and call > (6 if force else 2)
            break


@pytest.mark.parametrize("fault", cases("test_killed_at_any_call.test_a_run_that_never_began"))
def test_a_run_that_never_began(fault: Fault, tmp_path: Path) -> None:
    said = set()
    for call in itertools.count():
        final = tmp_path / str(call) / "run"
        came = killed_at(call, lambda final=final: begun(final, False, BEGUN))
        for made in final.parent.glob("*"):
            with suppress(EmptyInput):
                said |= {(fault.kept, note.code) for note in make_report(made).metadata.notes}
        if not came:
            assert call > 4
            break
    assert said == {(Kept.NOT_BEGUN, "damaged-run"), (Kept.NOT_BEGUN, "partial-run")}


@pytest.mark.parametrize("fault", cases("test_killed_at_any_call.test_what_the_probe_flushed_stays"))
def test_what_the_probe_flushed_stays(fault: Fault, tmp_path: Path) -> None:
    for call in itertools.count():
        home = tmp_path / str(call)
        home.mkdir()
        journal = Journal(str(home), Gaps())
        write_steps(journal, range(3))

        def go_on(journal: Journal = journal) -> None:
            write_steps(journal, range(3, 6))
            journal.truncate(5)  # as where the pattern was found to be another: the file is written anew
            write_steps(journal, range(5, 9))
            journal.finish()

        came = killed_at(call, go_on)
        table, notes = read_steps(home / "steps.csv", {})
        metrics, damage = read_metrics(home / "metrics.csv")
        assert table is not None and metrics is not None and (notes, damage) == ((), ())
        assert list(table.values("step"))[:3] == list(metrics.values("step"))[:3] == [0, 1, 2]
        assert read_object(home / "probe.json")["rows"] >= 3
        if not came:
            assert len(table) == 9 and call > 10
            break


def write_steps(journal: Journal, numbers: range) -> None:
    """Add steps, each with a figure, and write them."""
    journal.summary = lambda: {"rows": len(journal.numbers)}
    for number in numbers:
        journal.row(number, 10 * number)
        journal.metric(number, "loss", 0.5, "")
    journal.flush()
