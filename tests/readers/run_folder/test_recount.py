"""Steps and phases by all calls of a run, beside those that were seen while it ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.probe.core.journal import CallLog
from tcprobe.readers.run_folder.recount import Recount, read_recount
from tcprobe.readers.run_folder.steps import read_steps
from tcprobe.schema.columns import Table
from tcprobe.schema.op import Part
from tcprobe.schema.profile import Metadata, Note, Profile
from tcprobe.schema.tables import RANGES, STEP_MARKS
from tests.readers.run_folder.test_folder import make_run, read

NAMES = {0: "critic", 1: "generator", 2: "apply", 3: "pretrain"}


def seen(basis: str = "period", **more: Any) -> dict[str, Any]:
    parts = [{"key": key, "name": name, "eager": False, "begins": key != 2} for key, name in NAMES.items()]
    return {"steps": {"basis": basis}, "parts": parts, **more}


def folder(path: Path, calls: str, rows: list[int], steps: int = 1, lost: int = 0) -> Path:
    """Write a run of a call every 10 ns, by keys: steps.csv says that steps begin with the calls in `rows`."""
    path.mkdir(parents=True, exist_ok=True)
    log = CallLog(str(path / "calls.bin"))
    kept = [int(key) for key in calls][: len(calls) - lost]
    log.add_all(kept, range(0, 10 * len(kept), 10), [steps] * len(kept))
    log.flush()
    lines = [f"{steps * number},{10 * row},measured" for number, row in enumerate(rows)]
    (path / "steps.csv").write_text("\n".join(["step,start_ns,kind", *lines, ""]))
    return path


def counted(
    path: Path, probe: dict[str, Any] | None = None, marked: tuple[int, ...] = (), length: int = 60
) -> tuple[Recount | None, tuple[Note, ...]]:
    steps, _ = read_steps(path / "steps.csv", {})
    assert steps is not None
    own = Profile(Metadata("run_folder", ("x",))).with_tables(steps)
    count = len(marked)
    columns = {
        "iteration": list(marked),
        "name": ["tcprobe_step"] * count,
        "start_ns": [0] * count,
        "end_ns": [length] * count,
    }
    inside = own.with_tables(Table(STEP_MARKS, columns))
    return read_recount(path / "calls.bin", own, probe or seen(), [inside] if marked else [])


def test_steps_that_were_seen_right_stay_and_phases_come_with_them(tmp_path: Path) -> None:
    """Pretraining of 10 steps of one call, then 10 of two critics and a generator."""
    rows = [*range(10), *range(10, 40, 3)]
    found, notes = counted(folder(tmp_path, "3" * 10 + "001" * 10, rows), marked=(12, 13))
    assert found is not None and notes == () and found.moved == 0
    assert found.steps.values("step") == list(range(20))
    assert found.steps.values("live_step") == [None] * 20
    assert [found.phases.values(c) for c in ("first_step", "last_step", "steps")] == [[0, 10], [9, 19], [10, 10]]
    parts = [[(p.name, p.calls_per_step) for p in Part.all_of(text)] for text in found.phases.values("parts")]
    assert parts == [[("pretrain", 1.0)], [("critic", 2.0), ("generator", 1.0)]]
    assert found.phases.values("basis") == ["period", "period"]


def test_calls_that_were_taken_for_steps_count_as_parts_of_one(tmp_path: Path) -> None:
    """By hand: two critics and a generator; the first two critics had been taken for steps of their own."""
    found, (note,) = counted(folder(tmp_path, "001" * 8, [0, 1, *range(3, 24, 3)]))
    assert found is not None
    assert found.steps.values("step") == list(range(8))
    assert found.steps.values("live_step") == [None, *range(2, 9)]
    assert found.steps.values("start_ns") == list(range(0, 240, 30))
    assert found.steps.values("duration_ns") == [30] * 7 + [None]
    assert (note.code, note.level, found.moved) == ("steps-renumbered", "note", 8)
    assert found.of(np.array([0.0, 1.0, 2.0, 8.0, 11.0, np.nan])).tolist()[:5] == [0.0, 0.0, 1.0, 7.0, 10.0]
    window = {"first_step": 2, "last_step": 5, "reason": "x", "session": {"first_step": 1, "last_step": 5}}
    moved = {"first_step": 1, "last_step": 4, "reason": "x", "session": {"first_step": 0, "last_step": 4}}
    assert found.window(window) == moved
    assert found.window(None) is None


def test_what_a_mark_was_seen_to_hold_stays_together(tmp_path: Path) -> None:
    """Where a step begins within a mark, or a mark holds a part of one, no kernel is known of it: all stay."""
    halves = folder(tmp_path / "halves", "001" * 8, [0, *range(3, 24, 6)])
    assert counted(halves)[0]
    found, (note,) = counted(halves, marked=(1,))
    assert note.code == "steps-unsure"
    assert phases(found) == [(0, 4, {"critic": 3.5, "generator": 1.75})], "in the 4 that ended"
    assert [note.code for note in counted(halves, marked=(1,), length=29)[1]] == ["steps-renumbered"], "ended before"
    doubles = folder(tmp_path / "doubles", "001" * 8, [0, 1, *range(3, 24, 3)])
    assert counted(doubles, marked=(1,))[1] == (note,)
    assert [n.code for n in counted(doubles, marked=(0, 1))[1]] == ["steps-renumbered"]
    assert [n.code for n in counted(doubles, marked=(2, 3))[1]] == ["steps-renumbered"]


def test_only_what_the_probe_numbered_gets_other_numbers(tmp_path: Path) -> None:
    """A script that profiles itself, and ranges of a library's own, count by themselves."""
    found, _ = counted(folder(tmp_path, "001" * 8, [0, 1, *range(3, 24, 3)]))
    assert found is not None
    ranges = {
        "name": ["step 4", "step 4", "layer x"], "domain": ["tcprobe", "lib", "tcprobe"], "start_ns": [0, 1, 2],
        "duration_ns": [1, 1, 1], "kind": ["step", "step", "layer"], "step": [4, 4, None],
    }  # fmt: skip
    for name, number in (("tcprobe_step", 3), ("train", 4)):
        marks = {"iteration": [4], "name": [name], "start_ns": [0], "end_ns": [1]}
        profile = Profile(Metadata("x", ("x",))).with_tables(Table(STEP_MARKS, marks), Table(RANGES, ranges))
        moved = found.renumber(profile)
        assert moved.require("step_marks").values("iteration") == [number]
        assert moved.require("ranges").values("step") == [3, 4, None]


def test_a_call_that_makes_several_steps_counts_as_these(tmp_path: Path) -> None:
    found, _ = counted(folder(tmp_path, "1" * 12, list(range(12)), steps=5))
    assert found is not None and found.moved == 0
    assert found.phases.values("last_step") == [59]
    assert [p.calls_per_step for p in Part.all_of(found.phases.values("parts")[0])] == [0.2]


def test_an_optimizer_before_the_first_tape_is_of_no_step(tmp_path: Path) -> None:
    calls = folder(tmp_path, "2" + "12" * 10, list(range(1, 21, 2)))
    found, notes = counted(calls)
    assert found is not None and notes == () and found.moved == 0
    assert found.steps.values("start_ns") == list(range(10, 210, 20))


def test_steps_after_the_last_call_that_was_kept_go_on(tmp_path: Path) -> None:
    made = folder(tmp_path, "01" * 10, [0, 1, *range(2, 20, 2)], lost=6)
    found, notes = counted(made, seen(calls={"kept": 14, "lost": 6}))
    assert found is not None
    assert [note.code for note in notes] == ["calls-not-kept", "steps-renumbered"]
    assert "lacks the last 6 calls" in notes[0].message
    assert found.steps.values("step") == list(range(10))
    assert found.phases.values("last_step") == [9]


@pytest.mark.parametrize("changed", [{"basis": ""}, {"steps": "x"}, {"steps": {"basis": None}}, {"parts": None}])
def test_a_damaged_record_tells_less_and_breaks_nothing(changed: dict[str, Any], tmp_path: Path) -> None:
    found, notes = counted(folder(tmp_path, "001" * 8, [0, 1, *range(3, 24, 3)]), seen(**changed))
    assert (found is not None, len(notes)) == ((True, 1) if "parts" in changed else (False, 0))


def phases(found: Recount | None) -> list[tuple[Any, ...]]:
    """Return first and last step, and calls by name, of each phase."""
    assert found is not None and found.moved == 0
    each = zip(*(found.phases.values(name) for name in ("first_step", "last_step", "parts")), strict=True)
    return [(first, last, {p.name: p.calls_per_step for p in Part.all_of(text)}) for first, last, text in each]


def test_phases_of_steps_that_the_script_marks(tmp_path: Path) -> None:
    """10 of one call, then 5 of two; between them one of both; the last is cut off."""
    rows = [*range(10), *range(10, 22, 2)]
    made = folder(tmp_path, "3" * 10 + "01" + "0" * 9, rows)
    told = seen("tcprobe.step", steps={"basis": "tcprobe.step", "count": 16})
    mixed = {"pretrain": 10 / 11, "critic": 1 / 11, "generator": 1 / 11}
    assert phases(counted(made, told)[0]) == [(0, 10, mixed), (11, 15, {"critic": 2.0})]
    one = folder(tmp_path / "one", "00", [0])
    assert phases(counted(one, seen("tcprobe.step"))[0]) == [(0, 0, {"critic": 2.0})]
    late = seen("tcprobe.step", phases=[{"first_step": 0, "last_step": 0, "parts": []}])
    assert phases(counted(one, late)[0]) == [(0, 0, {"critic": 2.0})], "calls that were counted after their step"
    none = folder(tmp_path / "none", "", [0, 1, 2])
    assert phases(counted(none, seen("tcprobe.step"))[0]) == [(0, 2, {})]


def test_steps_that_change_all_the_time_have_no_phases(tmp_path: Path) -> None:
    """Three of one call and three of another, by turns: each phase is a pass over all that was recorded."""
    few = folder(tmp_path / "few", "000333" * 128 + "0", list(range(6 * 128 + 1)))
    assert len(phases(counted(few, seen("tcprobe.step"))[0])) == 256
    many = folder(tmp_path / "many", "000333" * 129, list(range(6 * 129)))
    assert counted(many, seen("tcprobe.step")) == (None, ())


@pytest.mark.parametrize(
    ("calls", "rows", "expected"),
    [
        ("0", [0], (0, 0, {})),  # of a step that is still running nothing is known
        ("01", [0], (0, 0, {})),
        ("010", [0, 2], (0, 1, {"critic": 1.0, "generator": 1.0})),
        # By chance: each call of the critic is a step; 6 ended, with 5 calls of the generator.
        ("010011100100", [0, 2, 3, 7, 8, 10, 11], (0, 6, {"critic": 1.0, "generator": 5 / 6})),
    ],
)
def test_where_too_little_repeats_steps_stay_and_their_calls_are_a_mean(
    calls: str, rows: list[int], expected: tuple[Any, ...], tmp_path: Path
) -> None:
    found, notes = counted(folder(tmp_path, calls, rows))
    assert (phases(found), notes) == ([expected], ())


def test_a_probe_that_told_phases_keeps_them_where_calls_tell_none(tmp_path: Path) -> None:
    assert counted(folder(tmp_path, "010", [0, 2]), seen(phases=[])) == (None, ())


def test_a_report_lists_both_numbers(tmp_path: Path) -> None:
    """The profile holds marks; of the run folder steps, figures and the window have other numbers."""
    made = make_run(tmp_path / "run")
    folder(made / "probe", "001" * 8, [0, 1, *range(3, 24, 3)])
    window = {"first_step": 3, "last_step": 6, "start_ns": 0, "stop_ns": 1, "reason": "as asked"}
    (made / "probe" / "probe.json").write_text(json.dumps(seen(window=window)))
    (made / "probe" / "metrics.csv").write_text("step,name,value,unit\n-1,loss,3,\n0,loss,2,\n1,loss,2,\n8,loss,1,\n")
    profile = read(made)
    assert profile.require("metrics").values("step") == [None, 0, 0, 7]
    assert (profile.metadata.run["window"]["first_step"], profile.metadata.run["window"]["last_step"]) == (2, 5)
    assert "steps-renumbered" in [note.code for note in profile.metadata.notes]
    iterations = analyse(profile).require("iterations")
    assert iterations.values("iteration") == list(range(8))
    assert iterations.values("live_iteration") == [None, *range(2, 9)]


def test_a_damaged_file_costs_nothing_else(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    whole = read(made)
    (made / "probe" / "calls.bin").write_bytes(b"tcprobe\0")
    damaged = read(made)
    assert [n.code for n in damaged.metadata.notes] == [*(n.code for n in whole.metadata.notes), "damaged-calls"]
    assert {name: len(t) for name, t in damaged.tables.items()} == {name: len(t) for name, t in whole.tables.items()}


def test_updates_of_threads_without_the_steps_are_told(tmp_path: Path) -> None:
    """Optimizers (key 2) are no updates of their own: their tape is."""
    made = folder(tmp_path, "12" * 10, list(range(0, 20, 2)))
    log = CallLog(str(tmp_path / "other.bin"))
    for thread, keys in ((7, "121212"), (8, "1111")):
        for key in keys:
            log.add(int(key), 5, 1, thread)
    log.flush()
    with (made / "calls.bin").open("ab") as file:
        file.write((tmp_path / "other.bin").read_bytes()[16:])
    found, notes = counted(made)
    assert found is not None and len(found.steps) == 10
    assert [(note.code, note.level) for note in notes] == [("threads", "note")]
    assert "with 10, 3, 4 updates: the steps are 10 of these, of one thread at a time" in notes[0].message


def test_updates_of_a_thread_that_has_the_steps_later_count_as_its_own(tmp_path: Path) -> None:
    made = folder(tmp_path, "12" * 10, list(range(0, 24, 2)))
    log = CallLog(str(tmp_path / "other.bin"))
    for key, thread in ((1, 7), (2, 7), (1, 8)):
        log.add(key, 5, 1, thread)
    log.hand_over(6, 7, 200)
    log.add_all((1, 2, 1, 2), (200, 210, 220, 230), (1, 1, 1, 1))
    log.flush()
    with (made / "calls.bin").open("ab") as file:
        file.write((tmp_path / "other.bin").read_bytes()[16:])
    found, notes = counted(made)
    assert found is not None and len(found.steps) == 12
    assert "with 10, 3, 1 updates: the steps are 12 of these, of one thread at a time" in notes[0].message
