"""`tcprobe report` without a path, with --last, and of a folder that holds runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.readers.run_folder.test_folder import make_run

NAMES = ("train-20261121T050102Z", "train-20261122T050102Z", "gan-20261123T050102Z")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working folder with three runs, the last of which failed, and one that goes on."""
    home = tmp_path / "tcprobe-runs"
    for number, name in enumerate((*NAMES, ".partial-train-1")):
        folder = make_run(home / name)
        record = json.loads((folder / "run.json").read_text())
        record |= {"started": f"2026-11-2{number}T05:01:02+00:00", "command": ["train.py", "--token", "abc", "7"]}
        (folder / "run.json").write_text(json.dumps(record | {"exit_code": number // 2}))
    monkeypatch.chdir(tmp_path)
    return home


def report(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return warm.run_tcprobe("report", *args)


def test_without_a_path_the_last_run_is_read(runs: Path) -> None:
    done = report()
    assert done.returncode == 0 and done.stderr.startswith(f"Reading tcprobe-runs/{NAMES[2]}\n")
    assert done.stdout == report(runs / NAMES[2]).stdout.replace(str(runs), "tcprobe-runs")


def test_a_file_of_a_watched_run_has_what_any_has(runs: Path) -> None:
    watched, plain = runs / "watched.txt", runs / "plain.txt"
    report(runs / NAMES[0], "-o", plain)
    done = report(runs / NAMES[0], "--watch", "-o", watched)
    assert done.returncode == 0 and watched.read_text() == plain.read_text()


def test_the_run_before_the_last(runs: Path) -> None:
    assert report("--last", "2").stderr.startswith(f"Reading tcprobe-runs/{NAMES[1]}\n")


def test_a_folder_of_runs_is_listed_newest_first(runs: Path) -> None:
    done = report("tcprobe-runs")
    head, *rows = done.stdout.splitlines()
    assert (done.returncode, head.split("  ")[0]) == (0, "run")
    assert [row.split()[0] for row in rows] == [f"tcprobe-runs/{name}" for name in reversed(NAMES)]
    assert "train.py --token *** 7" in rows[0] and rows[0].endswith(" 1") and rows[1].endswith(" 0")
    assert done.stderr == f"Next: tcprobe report tcprobe-runs/{NAMES[2]}\n"
    listed = json.loads(report("tcprobe-runs", "--json").stdout)["runs"]
    assert [run["path"] for run in listed] == [f"tcprobe-runs/{name}" for name in reversed(NAMES)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--last", "9"), "--last 9: tcprobe-runs/ holds 3"),
        (("tcprobe-runs", "--last", "1"), "--last says which run to read, and so does PATH"),
        (("tcprobe-runs", "--by", "op"), "3 profiles below this directory"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_what_names_no_run(words: tuple[str, ...], said: str) -> None:
    done = report(*words)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr


def test_no_run_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = report()
    assert done.returncode == 2 and "no run is named, and tcprobe-runs/ here holds none" in done.stderr
