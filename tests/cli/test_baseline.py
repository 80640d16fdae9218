"""`tcprobe baseline`, and comparisons with what it kept, as a user runs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tcprobe.cli import options
from tests import warm
from tests.cli.test_compare import GPU_RUN, refused, timed


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with a run that takes 10 ms a step, and one that takes 12."""
    timed(tmp_path / "base", 10.0)
    timed(tmp_path / "slow", 12.0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_is_kept_listed_and_compared_with(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = warm.run_tcprobe("baseline")
    assert (empty.returncode, empty.stdout) == (0, "") and "tcprobe baseline NAME RUN" in empty.stderr
    done = warm.run_tcprobe("baseline", "main", "base")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "Wrote tcprobe-baselines/main.json\n"
        "Next: tcprobe compare baseline:main RUN --fail-if 'step_time>+5%'\n"
    )  # fmt: skip
    error, hint = refused("baseline", "main", "slow")
    assert "main.json: exists already" in error and hint == "hint: --force replaces it, or choose another name"
    shutil.rmtree("base")  # the file is enough
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    assert options.baselines("m") == [("main", str(project / "tcprobe-baselines/main.json"))]
    listed = warm.run_tcprobe("baseline").stdout.splitlines()
    assert listed[0].split() == ["baseline", "started", "gpu", "precision", "step", "verdict"]
    assert listed[1].startswith("main ") and "10.2 ms  NOT MEASURED" in listed[1]
    gate = warm.run_tcprobe("compare", "baseline:main", "../slow", "--fail-if", "step_time>+5%")
    assert gate.returncode == 1 and "--fail-if step_time>+5%: met: slow: +20 %" in gate.stderr
    assert gate.stdout.startswith("A  baseline:main ")
    report = warm.run_tcprobe("report", "../slow", "--against", "baseline:main", "--fail-if", "step_time>+25%")
    assert report.returncode == 0 and "not met" in report.stderr


def test_what_cannot_be_told_fails_unless_that_is_allowed(project: Path) -> None:
    words = ("compare", "base", "slow", "--fail-if", "tc_kernel_time_pct<30")
    done = warm.run_tcprobe(*words)
    assert done.returncode == 2 and "cannot tell" in done.stderr
    allowed = warm.run_tcprobe(*words, "--allow-unknown")
    assert allowed.returncode == 0 and allowed.stderr == done.stderr
    met = warm.run_tcprobe(*words, "--allow-unknown", "--fail-if", "step_time>+5%")
    assert met.returncode == 1


def test_pyproject_says_where_they_lie_and_json_what_was_kept(project: Path) -> None:
    Path("pyproject.toml").write_text('[tool.tcprobe]\nbaselines = "ci"\nbaseline = "known.json"\n')
    done = warm.run_tcprobe("baseline", "gpu", GPU_RUN, "--json", "--force")
    kept = json.loads(done.stdout)
    assert kept["path"] == str(project / "ci/gpu.json") and kept["baseline"]["gpu"]
    listed = json.loads(warm.run_tcprobe("baseline", "--json").stdout)
    assert listed["baselines"] == [kept["baseline"]]


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (("baseline", "../x", "base"), "'../x' is no name for a baseline", "tcprobe baseline main RUN"),
        (("baseline", "x", "nosuch"), "nosuch: no such file", ""),
        (("compare", "baseline:mian", "base"), "mian.json: no such baseline", "tcprobe baseline NAME RUN writes one"),
        (("compare", "baseline:", "base"), "'' is no name for a baseline", ""),
    ],
)
def test_what_makes_no_sense_is_told(project: Path, words: tuple[str, ...], error: str, hint: str) -> None:
    lines = refused(*words)
    assert error in lines[0] and hint in lines[-1]
    assert not Path("tcprobe-baselines").exists()
