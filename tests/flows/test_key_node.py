"""Find a key node: a profile or a workload, and a run that finds its own; DLProf is the stand-in."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tcprobe.capture.base import DlprofOptions
from tcprobe.errors import MeasurementFailed, OutputError, TcprobeError, UsageError
from tcprobe.flows.key_node import find_key_node, profile_by_key_node, profile_named
from tcprobe.flows.profile import ProfileOptions, ProfileOutcome
from tests import warm
from tests.support import ROOT, needs_tensorflow

DLPROF = ROOT / "tests/fixtures/dlprof/tf2_1.8"
KEY = "ASSIGNADDVARIABLEOP_1"
SAID: list[str] = []


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SAID.clear()


@pytest.fixture
def fake_dlprof(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("PATH", f"{ROOT / 'tests/fixtures/fake_dlprof'}{os.pathsep}{os.environ['PATH']}")
    return monkeypatch


def write(code: str, name: str = "work.py") -> str:
    Path(name).write_text(textwrap.dedent(code))
    return name


def record(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "run.json").read_text()))


def auto(code: str, mode: str | None = None, **options: Any) -> ProfileOutcome:
    return profile_by_key_node(
        ProfileOptions((write(code),), dlprof=DlprofOptions("auto", mode), **options), say=SAID.append
    )


def noted(outcome: ProfileOutcome) -> set[str]:
    return {note["code"] for note in record(outcome.folder)["notes"]}


# --- what is named ------------------------------------------------------------------------------------


def test_what_lies_there_decides() -> None:
    shutil.copytree(DLPROF, "reports")
    shutil.copytree(DLPROF, "train_gan")
    Path("train_mnist").mkdir()
    shutil.copy(DLPROF / "dlprof_detailed.csv", "detailed")
    for name in ("reports", "train_gan", "./train_gan", "detailed", str(DLPROF / "dlprof_detailed.csv"), "gone.csv"):
        assert profile_named((name,)) == Path(name)
    write("pass", "script")
    write("pass", "reports.py")
    for words in (("-m", "reports"), ("script",), ("reports.py", "--x"), ("gone.py",), ("train_gna",)):
        assert profile_named(words) is None


def test_an_empty_folder_named_like_a_workload_is_none() -> None:
    Path("train_gan").mkdir()
    assert profile_named(("train_gan", "--steps", "3")) is None
    assert profile_named(("./train_gan",)) == Path("train_gan")


@pytest.mark.parametrize(("words", "hint"), [((), "as in"), (("d", "--top", "3"), "before it"), (("d", "x"), "alone")])
def test_words_that_name_nothing(words: tuple[str, ...], hint: str) -> None:
    Path("d").mkdir()
    with pytest.raises(UsageError) as refused:
        profile_named(words)
    assert hint in str(refused.value.hint)


def test_a_profile_is_searched_as_it_is() -> None:
    done = find_key_node(ProfileOptions((str(DLPROF / "dlprof_detailed.csv"),)))
    assert (done.ran, done.found.best is not None and done.found.best.fired.key) == ((), KEY)
    assert not list(Path().iterdir())


def test_a_workload_is_run_under_dlprof_where_there_is_one(fake_dlprof: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    done = find_key_node(ProfileOptions((write("print('trained')"), "7")), said.append)
    assert done.found.best is not None
    assert (done.found.best.fired.key, done.ran) == (KEY, ("work.py", "7"))
    assert said[-1] == f"run folder kept: {done.path}"
    assert record(done.path)["profiler"]["name"] == "dlprof"
    assert {p.name for p in (done.path / "raw/dlprof").glob("*.csv")} == {"dlprof_detailed.csv", "dlprof_summary.csv"}


def test_what_a_workload_that_fails_recorded_is_searched(fake_dlprof: pytest.MonkeyPatch) -> None:
    done = find_key_node(ProfileOptions((write("raise SystemExit(7)"),)), SAID.append)
    assert done.found.steps == 8
    assert SAID[-1] == "the workload failed with exit code 7: what was recorded until then was searched"


def test_a_workload_that_is_killed_is_not_run_again(fake_dlprof: pytest.MonkeyPatch) -> None:
    outcome = auto(f"import os, time; os.kill({os.getpid()}, 15); time.sleep(30)")
    assert (outcome.exit_code, outcome.cut, SAID.count("running work under DLProf")) == (143, True, 1)


def test_a_workload_that_fails_is_said_to_have_failed(fake_dlprof: pytest.MonkeyPatch) -> None:
    fake_dlprof.setenv("FAKE_DLPROF_MOOD", "writes-nothing")
    with pytest.raises(MeasurementFailed, match=r"the workload failed with exit code 7: .*no key node"):
        find_key_node(ProfileOptions((write("raise SystemExit(7)"),)))


@needs_tensorflow
def test_a_real_run_of_tensorflow_has_one() -> None:
    code = """
        import tensorflow as tf
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
        model.compile("sgd", "mse")
        model.fit(tf.zeros((64, 4)), tf.zeros((64, 2)), batch_size=4, epochs=2, verbose=0)
    """
    done = find_key_node(ProfileOptions((write(code),), profiler="tensorflow", python=warm.python()))
    best = done.found.best
    assert best is not None
    assert done.found.basis == "marks"
    assert best.fired.calls == done.found.steps
    assert best.fired.op_type in ("AssignAddVariableOp", "AssignSubVariableOp", "ResourceApplyGradientDescent")
    assert not best.flaws


# --- a run that finds its own -------------------------------------------------------------------------


def test_a_run_finds_its_key_node_first(fake_dlprof: pytest.MonkeyPatch) -> None:
    outcome = auto("print('trained')", output=Path("out"))
    kept = record(outcome.folder)
    assert outcome.exit_code == 0
    assert f"key node {KEY}: 8 calls in 8 steps; by its calls alone; adds in the optimizer, as its counter does" in SAID
    assert kept["key_node"]["chosen"] == KEY
    assert (kept["key_node"]["steps"], kept["key_node"]["steps_basis"], kept["key_node"]["why_none"]) == (
        8,
        "calls",
        None,
    )
    assert outcome.report is not None
    assert outcome.report.marked_steps == 7
    assert record(Path("out/key-node"))["key_node"] is None
    assert sorted(p.name for p in Path().iterdir()) == ["out", "work.py"]


def test_where_none_is_found_the_run_goes_on_without(fake_dlprof: pytest.MonkeyPatch) -> None:
    fake_dlprof.setenv("FAKE_DLPROF_BUILD", "pytorch-1.0")
    outcome = auto("pass", mode="simple", output=Path("out"))
    assert outcome.exit_code == 0
    kept = record(outcome.folder)["key_node"]
    assert (kept["chosen"], kept["searched"]) == (None, "key-node")
    assert "no key node" in kept["why_none"]
    assert "no-key-node-found" in noted(outcome)
    assert Path("out/key-node/run.json").exists()


def test_a_workload_that_fails_is_not_run_again(fake_dlprof: pytest.MonkeyPatch) -> None:
    fake_dlprof.setenv("FAKE_DLPROF_MOOD", "writes-nothing")
    outcome = auto("open('ran', 'a').write('x'); raise SystemExit(7)")
    assert (outcome.exit_code, Path("ran").read_text()) == (7, "x")
    assert record(outcome.folder)["exit_code"] == 7


def test_what_cannot_be_written_is_refused_before_the_short_run(fake_dlprof: pytest.MonkeyPatch) -> None:
    Path("out").mkdir()
    write("", "out/mine")
    with pytest.raises(OutputError, match="exists already"):
        auto("open('ran', 'w')", output=Path("out"))
    assert not Path("ran").exists()


def test_another_profiler_takes_no_key_node() -> None:
    with pytest.raises(UsageError, match="are for DLProf"):
        auto("pass", profiler="tensorflow")


def test_without_dlprof_nothing_is_run() -> None:
    with pytest.raises(TcprobeError, match="no dlprof on PATH"):
        auto("open('ran', 'w')")
    assert not Path("ran").exists()


def test_a_build_without_a_duration_records_all(fake_dlprof: pytest.MonkeyPatch) -> None:
    fake_dlprof.setenv("FAKE_DLPROF_BUILD", "tf1-0.8")
    assert record(auto("pass").folder)["key_node"]["chosen"] is not None
