"""A run in progress is followed by what it writes, until its folder has its final name; nothing of it is touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tcprobe.errors import InputError, UsageError
from tcprobe.flows.watch import Look, follow
from tcprobe.report.run.watch import watch_facts
from tests.report.builders import table

NAME = "gan-20261128T101500Z"


class Run:
    """A run folder as a probe writes it, 10 ms a step."""

    def __init__(self, home: Path, name: str = f".partial-{NAME}-x1y2", started: str = "2026-11-28T10:15:00") -> None:
        self.place = home / name
        (self.place / "probe").mkdir(parents=True)
        (self.place / "run.json").write_text(json.dumps({"tcprobe": "1", "started": started}))

    def write(self, steps: int, *metrics: str) -> None:
        rows = "".join(f"{i},{i * 10_000_000},{'warm-up' if i < 2 else 'measured'}\n" for i in range(steps))
        (self.place / "probe" / "steps.csv").write_text(f"step,start_ns,kind\n{rows}{steps},12")  # the last is cut off
        (self.place / "probe" / "metrics.csv").write_text("\n".join(["step,name,value,unit", *metrics, ""]))

    def end(self, name: str = NAME) -> None:
        self.place.rename(self.place.with_name(name))


def watched(path: Path | None, *changes: Callable[[], object]) -> tuple[Path, list[str]]:
    """Return the folder at the end, and what is said at each look; a change of the run follows each."""
    said, left = list[str](), list(changes)

    def show(look: Look) -> None:
        facts = watch_facts(look.steps, look.metrics, look.silent_s, look.finished)
        said.append(", ".join(f"{label} {text}" for label, text in facts))

    return follow(path, show, lambda _: left.pop(0)()), said  # type: ignore[func-returns-value]


def test_steps_after_the_profiled_ones_are_said_to_be_so() -> None:
    steps = table("steps", {"step": 59, "start_ns": 0, "kind": "after"})
    assert watch_facts(steps, None, 0.0)[0] == ("steps", "59 (profiling done)")


def test_a_run_is_followed_until_it_has_its_name(tmp_path: Path) -> None:
    run = Run(tmp_path)
    nan = ("0,loss,0.5,", "0,throughput,120.5,img/s", "1,loss,nan,", "2,loss,nan,")
    finished = lambda: (run.place / "probe" / "probe.json").write_text('{"finished": true}')  # noqa: E731
    place, said = watched(
        tmp_path / NAME, lambda: run.write(2), lambda: run.write(4, *nan), finished, lambda: run.end(f"{NAME}-2")
    )
    assert place == tmp_path / f"{NAME}-2"
    assert said == [
        "no step yet after 0 s",
        "steps 1 (warm-up), step time 10.0 ms, throughput 100 steps/s, last step 0 s ago",
        "steps 3 (measured), step time 10.0 ms, throughput 120.5 img/s, loss nan since step 1, last step 0 s ago",
        "steps 3 (measured), step time 10.0 ms, throughput 120.5 img/s, loss nan since step 1, "
        "now the workload has ended, and its profile is being read",
    ]


def test_of_several_runs_the_one_that_goes_on_counts_else_the_last(tmp_path: Path) -> None:
    old, new = Run(tmp_path, "a", "2026-11-01T00:00:00"), Run(tmp_path, "b", "2026-11-02T00:00:00")
    Run(tmp_path, ".partial-c-k", "2026-11-01T12:00:00")  # killed long ago
    assert watched(tmp_path) == (new.place, [])
    assert watched(old.place) == (old.place, [])
    goes_on = Run(tmp_path)
    assert watched(tmp_path, goes_on.end) == (tmp_path / NAME, ["no step yet after 0 s"])


def test_only_the_ends_of_long_files_are_read(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(50_000, *(f"{i},d_loss,0.25," for i in range(50_000)))
    _, said = watched(run.place, run.end)
    assert said == [
        "steps 49,999 (measured), step time 10.0 ms, throughput 100 steps/s, d_loss 0.25, last step 0 s ago"
    ]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--watch follows a run"):
        watched(tmp_path / "nothing")
    with pytest.raises(UsageError, match="no run of tcprobe profile lies there"):
        watched(tmp_path)
    run = Run(tmp_path)
    with pytest.raises(InputError, match="removed or moved"):
        watched(run.place, lambda: run.place.rename(tmp_path.parent / "elsewhere"))


def test_an_interrupt_ends_the_watching_alone(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write(3)
    before = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in run.place.rglob("*")}

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(run.place, lambda _: None, interrupt)
    assert before == {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in run.place.rglob("*")}
