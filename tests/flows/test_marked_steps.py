"""Steps that a workload marks itself are shown where no profiler recorded anything, as without TensorFlow."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from tcprobe.analysis.context import Options
from tcprobe.flows.report import make_report
from tcprobe.schema.profile import Profile
from tests import warm
from tests.faults.running import Tcprobe

MARKED = """
import tcprobe, time
for step in range(30):
    with tcprobe.step():
        time.sleep(0.004)
    print("loss: %.3f throughput: 12.5 img/s" % (1 / (step + 1)))
"""
MS = 1_000_000


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the run folder of a plain script that marks 30 steps, and what `tcprobe profile` printed."""
    done = Tcprobe(tmp_path_factory.mktemp("work"), MARKED, "--output", "run")
    assert done.wait() == 0, done.printed
    return done.work / "run", done.printed


def remade(folder: Path, into: Path, starts: list[int], kinds: list[str], **record: object) -> Path:
    """Return a copy of a run folder with other steps."""
    shutil.copytree(folder, into)
    rows = [f"{i},{start},{kind}\n" for i, (start, kind) in enumerate(zip(starts, kinds, strict=True))]
    (into / "probe/steps.csv").write_text("step,start_ns,kind\n" + "".join(rows))
    (into / "run.json").write_text(json.dumps({**json.loads((into / "run.json").read_text()), **record}))
    return into


def length(profile: Profile) -> tuple[object, object]:
    """Return the length of a step and what is said of it."""
    row = profile.figure("step_time_ns")
    assert row is not None
    return row["value"], row["reason"]


def test_a_script_without_tensorflow_has_its_steps(ran: tuple[Path, str]) -> None:
    folder, printed = ran
    with (folder / "probe/steps.csv").open() as file:
        kinds = [row["kind"] for row in csv.DictReader(file)]
    assert kinds == ["warm-up"] * 2 + ["measured"] * 28
    profile = make_report(folder)
    value, why = length(profile)
    assert isinstance(value, float)
    assert value >= 4 * MS
    assert why == "median of 27 steps that no profiler slowed"
    table, window = profile.require("iterations"), profile.metadata.window
    assert table.values("iteration") == list(range(30))
    assert (window.basis, window.last) == ("detected", 28)  # of the last nobody knows when it ended
    assert "Iterations (10 of 30)" in printed
    assert "the steps are those that it marks itself" in printed
    assert not [words for words in ("no step is marked", "marks no steps", "mark the step") if words in printed]
    throughput = profile.figure("throughput")
    assert throughput is not None
    assert (throughput["value"], throughput["reason"]) == (12.5, None)


def test_its_folder_is_reported_in_every_format_and_compared(ran: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = ran
    kinds = ["warm-up"] * 2 + ["measured"] * 28
    once, twice = (
        remade(folder, tmp_path / name, [n * each * MS + (n % 3) * 9000 for n in range(30)], kinds)
        for name, each in (("once", 20), ("twice", 40))
    )
    page = warm.run_tcprobe("report", once, "--format", "markdown").stdout
    assert "| step time | 20.0 ms" in page
    assert "steps 0 to 28: 29 of 30 counted (detected)" in page
    document = json.loads(warm.run_tcprobe("report", once, "--format", "json").stdout)
    assert len(document["tables"]["iterations"]) == 30
    compared = warm.run_tcprobe("compare", once, twice).stdout
    assert "B takes 40.0 ms a step, 100 % more than A with 20.0 ms" in compared
    assert "from 27 steps of A and 27 of B." in compared
    assert "under the profiler" not in compared
    chosen = make_report(once, Options(iter_start=5, iter_stop=10)).metadata.window
    assert (chosen.first, chosen.last, chosen.basis) == (5, 10, "given")


@pytest.mark.parametrize(
    ("count", "kind", "value", "why"),
    [
        (1, "warm-up", None, "no step after warm-up has a known length"),
        (2, "warm-up", None, "no step after warm-up has a known length"),
        (4, "measured", 20.0 * MS, "1 of the steps that no profiler slowed"),
        # of a probe that called all of a run warm-up for which no profiler was opened
        (30, "warm-up", 20.0 * MS, "median of 27 steps before the profiled window, which the profiler may slow"),
    ],
)
def test_few_steps_and_folders_of_earlier_probes(
    ran: tuple[Path, str], count: int, kind: str, value: float | None, why: str, tmp_path: Path
) -> None:
    kinds = [kind if step >= 2 else "warm-up" for step in range(count)]
    profile = make_report(remade(ran[0], tmp_path / "run", [20 * MS * n for n in range(count)], kinds))
    assert length(profile) == (value, why)
    assert len(profile.require("iterations")) == count


def test_a_folder_passed_on_without_its_recording_keeps_its_window(ran: tuple[Path, str], tmp_path: Path) -> None:
    kinds = ["warm-up"] * 2 + ["profiled"] * 20 + ["after"] * 8
    window = {"first_step": 2, "last_step": 21, "start_ns": 0, "stop_ns": 9, "reason": "settled"}
    made = remade(ran[0], tmp_path / "run", [20 * MS * n for n in range(30)], kinds, window=window)
    kept = make_report(made)
    assert kept.metadata.window.basis == "profiled by the probe"
    assert (kept.metadata.window.first, kept.metadata.window.last, kept.marked_steps) == (2, 21, 20)
