"""Run a sweep: in turn, each as `profile` does; what fails, is refused, is interrupted, or finds no room."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tcprobe.capture.base import CaptureRequest, Invocation
from tcprobe.capture.probed import Unprobed, unwatched
from tcprobe.errors import Interrupted, OutputError, ToolError, UsageError, WrongFormat
from tcprobe.flows.profile import ProfileOptions, ProfileOutcome, profile
from tcprobe.flows.report import make_report
from tcprobe.flows.runs import runs_in
from tcprobe.flows.sweep import run as flow
from tcprobe.flows.sweep.plan import SweepOptions
from tcprobe.flows.sweep.run import read_sweep, run_sweep, state_of
from tcprobe.schema.sweep import SweepResult

WORK = """
import argparse, os, tcprobe
SCALE = 1
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=1)
size = parser.parse_args().size
if size == 3:
    raise SystemExit("size 3 is too large")
for step in range(12):
    with tcprobe.step():
        pass
    print("loss: %.3f throughput: %d img/s" % (size / (step + 1), 100 * size * SCALE + int(os.environ.get("MORE", 0))))
"""
SAID: list[str] = []


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("work.py").write_text(WORK)
    SAID.clear()


def asked(*, output: str | None = "sweep", **more: Any) -> SweepOptions:
    base = ProfileOptions(("work.py",), output=None if output is None else Path(output))
    return SweepOptions(base, {}, **{"vary": ["--size=1,2"], **more})


def swept(options: SweepOptions) -> SweepResult:
    folder, ran = run_sweep(options, SAID.append)
    return read_sweep(folder, known=ran)


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of size 1."""
    work = tmp_path_factory.mktemp("run")
    (work / "work.py").write_text(WORK)
    return profile(ProfileOptions((str(work / "work.py"),), output=work / "one"), stdout_to_stderr=True).folder


def copied(monkeypatch: pytest.MonkeyPatch, run: Path, instead: dict[int, Callable[[], None]]) -> list[str]:
    """Have runs be copies of one, which takes no time, some preceded by what `instead` does; return their folders."""
    made = list[str]()

    def profile_(options: ProfileOptions, *_: Any) -> ProfileOutcome:
        assert options.output is not None
        made.append(options.output.name)
        instead.get(len(made), lambda: None)()
        shutil.copytree(run, options.output)
        return ProfileOutcome(options.output, 0, False, make_report(options.output))

    monkeypatch.setattr(flow, "profile_by_key_node", profile_)
    return made


def interrupt() -> None:
    raise KeyboardInterrupt


def test_runs_have_their_settings_and_a_failed_one_does_not_end_it() -> None:
    """Sizes 1 and 3, a variable, a constant; those with size 3 end badly before their first step."""
    result = swept(asked(vary=["--size=1,3"], vary_env=["MORE=5"], vary_constant=["SCALE=1,2"]))
    assert [(run.planned.folder, run.state, run.figures is not None) for run in result.runs] == [
        ("c01-r1-1-5-1", "whole", True),
        ("c02-r1-1-5-2", "whole", True),
        ("c03-r1-3-5-1", "failed", False),
        ("c04-r1-3-5-2", "failed", False),
    ]
    assert {run.why for run in result.runs[2:]} == {"the workload failed with exit code 1"}
    assert [row.throughput.value for row in result.rows] == [105, 205, None, None]
    assert Path("work.py").read_text() == WORK
    record = json.loads(Path("sweep/c02-r1-1-5-2/run.json").read_text())
    assert (record["constants"], record["partial"]) == ({"SCALE": "2"}, False)
    assert "SCALE = (2)" in Path("sweep/c02-r1-1-5-2/probe/script.py").read_text()
    assert SAID[0] == "4 runs: 4 combinations of size and SCALE; baseline: size=1 with SCALE=1 (sweep)"
    runs = [line for line in SAID if line.startswith("run ")]
    assert runs[0] == "run 1 of 4: size=1 with SCALE=1"
    assert runs[1].startswith("run 2 of 4: size=1 with SCALE=2, about ") and runs[1].endswith(" s left")
    again = read_sweep(Path("sweep"))
    assert [(row.speedup, row.last) for row in again.rows] == [(row.speedup, row.last) for row in result.rows]


def test_what_is_whole_is_not_run_again(monkeypatch: pytest.MonkeyPatch, one_run: Path) -> None:
    """Ctrl-C in run 2 of 4; the same command makes three; one repeat more makes two, another baseline none."""
    made = copied(monkeypatch, one_run, {2: interrupt})
    with pytest.raises(Interrupted):
        run_sweep(asked(repeat=2), SAID.append)
    assert SAID[-1] == "1 of 4 runs are whole; the same command goes on with the others (sweep)"
    result = swept(asked(repeat=2))
    assert made == ["c01-r1-1", "c02-r1-2", "c02-r1-2", "c01-r2-1", "c02-r2-2"]
    assert {run.state for run in result.runs} == {"whole"} and result.fastest
    assert "1 of them are whole already" in SAID
    swept(asked(repeat=3))
    assert made[5:] == ["c01-r3-1", "c02-r3-2"]
    other = swept(asked(repeat=3, baseline="size=2"))
    assert (len(made), other.plan.baseline) == (7, 2)
    with pytest.raises(OutputError, match="holds another sweep"):
        run_sweep(asked(vary=["--size=1,3"]), SAID.append)
    Path("work.py").write_text(WORK + "#")
    with pytest.raises(OutputError, match="holds another sweep"):
        run_sweep(asked(repeat=2), SAID.append)


def test_without_a_folder_the_unfinished_one_is_taken_up(monkeypatch: pytest.MonkeyPatch, one_run: Path) -> None:
    copied(monkeypatch, one_run, {2: interrupt})
    with pytest.raises(Interrupted):
        run_sweep(asked(output=None), SAID.append)
    (first,) = Path("tcprobe-runs").iterdir()
    assert first.name.startswith("work-sweep-")
    (first / "c02-r1-2").mkdir()  # a run that was cut off and left nothing
    assert swept(asked(output=None)).folder == str(first)
    assert (first / "earlier/c02-r1-2-1").is_dir()
    assert swept(asked(output=None)).folder != str(first)
    assert {run.profiler for run in runs_in(Path("tcprobe-runs"))} == {"sweep"}


def test_a_full_disk_in_the_middle_loses_nothing(monkeypatch: pytest.MonkeyPatch, one_run: Path) -> None:
    def full() -> None:
        raise OutputError("sweep: only 3 MB are free, and a run needs 64 MB", "make room")

    copied(monkeypatch, one_run, {3: full})
    with pytest.raises(OutputError, match="only 3 MB are free") as caught:
        run_sweep(asked(repeat=2), SAID.append)
    done = "make room; 2 of 4 runs are whole, and the same command goes on with the others (sweep)"
    assert caught.value.hint == done
    assert [run.state for run in swept(asked(repeat=2)).runs] == ["whole"] * 4


def test_a_run_for_whose_end_there_was_no_room_is_not_whole(one_run: Path, tmp_path: Path) -> None:
    shutil.copytree(one_run, tmp_path / "run")
    record = json.loads((one_run / "run.json").read_text())
    full = {**record, "notes": [{"code": "disk-full", "message": "no space was left"}]}
    for given, state in ((record, "whole"), (full, "failed"), ({**record, "partial": True}, "failed")):
        (tmp_path / "run/run.json").write_text(json.dumps(given))
        assert state_of(tmp_path / "run")[0] == state


def test_two_processes_do_not_run_one_sweep(monkeypatch: pytest.MonkeyPatch, one_run: Path) -> None:
    def beside() -> None:
        with pytest.raises(OutputError, match="another tcprobe runs this sweep"):
            run_sweep(asked(), SAID.append)

    copied(monkeypatch, one_run, {2: beside})
    assert len(swept(asked()).fastest) == 2


def test_arguments_that_the_workload_refuses_are_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as caught:
        run_sweep(asked(vary=["--sizes=good,bad", "--n=1"], output=None), SAID.append)
    assert "work refuses its arguments (varied: --sizes=good, --n=1)" in caught.value.message
    assert "unrecognized arguments: --sizes=good --n=1" in capfd.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["work.py"]


def test_another_folder_is_left_alone() -> None:
    Path("taken").mkdir()
    Path("taken/x").touch()
    with pytest.raises(OutputError, match="taken: exists already, and is no sweep"):
        run_sweep(asked(output="taken"), SAID.append)
    assert [path.name for path in Path("taken").iterdir()] == ["x"]


def test_a_damaged_plan_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"plan": 3}', '{"plan": {"workload": "x", "factors": []}}'):
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(WrongFormat, match="damaged, or none of tcprobe's"):
            read_sweep(tmp_path)


def test_constants_need_the_probe(tmp_path: Path) -> None:
    target = Invocation("script", "work.py", source=b"SCALE = 2")
    with pytest.raises(ToolError, match="constants are changed by the probe, which cannot run here: it is too old"):
        unwatched(CaptureRequest(target, tmp_path, "python"), Unprobed("it is too old"))
