"""Units of the part, with a fake interpreter and a fake nsys."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.counters.ncu import NotAllowed
from bench.gpu.day import Clock, Day, Status
from bench.gpu.machine import Framework, Machine, Tool
from bench.gpu.profiles import kernels, part, raw
from tests.bench.gpu.profiles import fakes
from tests.support import ROOT

Do = Callable[[str], Status]


@pytest.fixture
def day(tmp_path: Path) -> Day:
    fake = tmp_path / "fake"
    fake.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{fakes.__file__}" "$@"\n')
    fake.chmod(0o755)
    frameworks = (Framework("jax", "0.11", str(fake), "3.12", {}), Framework("torch", "2.11", str(fake), "3.12", {}))
    machine = Machine(None, {}, 0, frameworks, None, Tool(str(fake), "2026.1"))
    (tmp_path / "out").mkdir()
    return Day(tmp_path / "out", machine, True, lambda _: None)


@pytest.fixture
def do(day: Day) -> Do:
    found = {unit.name: unit for unit in part.units(day)}
    return lambda name: day.do(part.NAME, found[name], Clock(60))


def told(day: Day, name: str, file: str = "step.json") -> dict[str, Any]:
    read: dict[str, Any] = json.loads((day.folder / part.NAME / name / file).read_text())
    return read


def test_profiles_come_first_and_the_second_precision_last(day: Day) -> None:
    names = [unit.name for unit in part.units(day)]
    assert names[:2] == ["transformer-torch-kineto", "transformer-jax-xspace"]
    assert names[4:6] == ["transformer-torch-ncu", "transformer-jax-ncu"]
    assert names[-2:] == ["transformer-torch.tf32-ncu", "gan-torch.tf32-ncu"]
    assert len(set(names)) == len(names) == 20
    assert all(len(name.split("-")) == 3 for name in names)


def test_the_program_has_what_it_is_ordered() -> None:
    assert (part.PROGRAM / "__main__.py").is_file()
    assert (part.PROGRAM / "record.py").is_file()
    assert part.RANGES.is_file()
    assert all((part.PROGRAM / f"with_{name}.py").is_file() for name in part.OWN)
    assert (ROOT / "workloads" / "train_gan.py").is_file()


def test_a_profile_of_kineto(day: Day, do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "WORTH", 1500)  # four steps are too large to keep, two are not
    assert do("gan-torch-kineto") == "done"
    step = told(day, "gan-torch-kineto")
    assert (step["step_ns"], step["plain_step_ns"], step["counted_steps"], step["kernels"]) == (300.0, 200.0, 4, 8)
    assert (step["raw"], step["raw_steps"]) == ("trace.json.gz", 2)
    found = kernels.read(day.folder / part.NAME / "gan-torch-kineto")
    assert found == {name: kernels.Tally(4, 4 * ns, ns, ns) for name, ns in fakes.DURATIONS}
    left = {path.name for path in (day.folder / part.NAME / "gan-torch-kineto").iterdir()}
    assert left == {"unit.json", "step.json", "kernels.csv.gz", "trace.json.gz"}


def test_steps_alone_have_no_kernels(day: Day, do: Do) -> None:
    assert do("transformer-torch-plain") == "done"
    step = told(day, "transformer-torch-plain")
    assert (step["step_ns"], step["plain_step_ns"], step["counted_steps"], step["kernels"]) == (
        300.0,
        300.0,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gan-torch-plain", "the program ended with status 1: out of memory"),
        ("gan-torch.tf32-kineto", "torch sees no GPU"),
        ("gan-jax-xspace", "the profiler left no trace of 4 steps"),
        ("gan-torch-nsys", "nsys ended with status 0 and wrote no report: a line of the framework's"),
    ],
)
def test_what_cannot_be_recorded_says_why(day: Day, do: Do, name: str, reason: str) -> None:
    assert do(name) == "failed"
    assert told(day, name, "unit.json")["reason"] == reason
    assert not (day.folder / part.NAME / name / "work").exists()


def test_a_profile_of_nsys(day: Day, do: Do) -> None:
    assert do("transformer-torch-nsys") == "done"
    step = told(day, "transformer-torch-nsys")
    assert (step["counted_steps"], step["kernels"], step["raw"], step["raw_steps"]) == (4, 8, "trace.sqlite.gz", 4)
    found = kernels.read(day.folder / part.NAME / "transformer-torch-nsys")
    assert found == {name: kernels.Tally(4, 4 * ns, ns, ns) for name, ns in fakes.DURATIONS}


def test_nsys_runs_again_for_a_trace_to_keep(day: Day, do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1 + raw.MOST

    def fits(path: Path, private: object) -> bytes:
        return b"" if "trace-4" not in str(path) else bytes(range(256)) * (size // 256)

    monkeypatch.setattr(raw, "anonymous", fits)
    monkeypatch.setattr(raw, "MOST", 1000)
    assert do("transformer-torch-nsys") == "done"
    assert told(day, "transformer-torch-nsys")["raw_steps"] == 2


def test_a_trace_that_its_reader_refuses_is_kept(day: Day, do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> kernels.Tallies:
        raise ValueError(f"{path}: Unterminated string")

    monkeypatch.setitem(kernels.READ, "kineto", refuse)  # type: ignore[arg-type]
    assert do("gan-torch-kineto") == "done"
    step = told(day, "gan-torch-kineto")
    assert step["kernels"] is None
    assert step["notes"][0] == "a trace of 4 steps was not read: trace.json: Unterminated string"
    assert step["raw"] == "trace.json.gz"
    assert kernels.read(day.folder / part.NAME / "gan-torch-kineto") == {}


def test_a_profiler_that_did_not_record_the_gpu_does_not_say_that_nothing_ran(
    day: Day, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kernels.READ, "kineto", lambda path: {})  # type: ignore[arg-type]
    assert do("gan-torch-kineto") == "done"
    step = told(day, "gan-torch-kineto")
    assert (step["kernels"], step["counted_steps"], step["raw"]) == (None, None, "trace.json.gz")
    assert step["notes"][0].startswith("a trace of 4 steps holds no kernel")
    assert not (day.folder / part.NAME / "gan-torch-kineto" / kernels.FILE).exists()


@pytest.mark.parametrize(("whole", "counted", "launches"), [((2, 1), 2, 4), ((), None, 8)])
def test_steps_whose_kernels_were_lost_are_not_counted(
    day: Day, do: Do, monkeypatch: pytest.MonkeyPatch, whole: tuple[int, ...], counted: int | None, launches: int
) -> None:
    def lost(path: Path) -> int:
        return 0 if int(path.parent.name.partition("-")[2]) in whole else 3

    monkeypatch.setattr(kernels, "lost_by_kineto", lost)
    assert do("gan-torch-kineto") == "done"
    step = told(day, "gan-torch-kineto")
    assert (step["kernels"], step["counted_steps"], step["raw_steps"]) == (launches, counted, 4)
    assert step["notes"][0] == "a trace of 4 steps lacks the kernels of 3 launches: the profiler lost them"


def test_a_count_that_was_cut_off_is_of_no_whole_step(day: Day, do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(day: Day, command: Sequence[str], folder: Path, seconds: float, environment: dict[str, str]) -> int:
        fakes.answer(Path(command[-1]))
        (folder / "count.json").write_text('{"complete": false}')
        return 7

    monkeypatch.setattr(part, "count", count)
    assert do("gan-torch-ncu") == "done"
    step = told(day, "gan-torch-ncu")
    assert (step["steps"], step["counted_steps"], step["kernels"], step["step_ns"]) == (1, None, 7, None)
    assert step["notes"] == ["not all kernels of the step were counted"]


def test_counters_that_are_refused_are_asked_for_once(day: Day, do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def count(*asked_for: object) -> int:
        asked.append(asked_for)
        raise NotAllowed("no permission", "ask for it")

    monkeypatch.setattr(part, "count", count)
    assert [do("gan-torch-ncu"), do("gan-jax-ncu")] == ["failed", "failed"]
    assert len(asked) == 1
    assert told(day, "gan-jax-ncu", "unit.json")["remedy"] == "ask for it"
