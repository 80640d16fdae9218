"""Where options have their values from: the command line, the environment, pyproject.toml; and what every verb has."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tcprobe.audit.settings import VERBS as TABLES
from tcprobe.cli.app import VERBS
from tests import warm

SETTINGS = """
[tool.tcprobe]
dtype = "float16"
[tool.tcprobe.report]
top = 5
by = ["op"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tcprobe(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm.run_tcprobe(*args, **environment)


def shown(*args: str, **environment: str) -> dict[str, tuple[object, str]]:
    done = tcprobe(*args, "--show-config", "--json", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return {o["option"]: (o["value"], o["from"]) for o in json.loads(done.stdout)["options"]}


def test_the_nearer_word_wins(project: Path) -> None:
    file = project / "pyproject.toml"
    found = shown("report", "x", "--width", "70", TCPROBE_TOP="3", TCPROBE_WIDTH="60", TCPROBE_REPORT_SAFE_CSV="1")
    assert found["width"] == (70, "command line")
    assert found["top"] == (3, "TCPROBE_TOP")
    assert found["safe-csv"] == (True, "TCPROBE_REPORT_SAFE_CSV")
    assert found["by"] == (["op"], f"tool.tcprobe.report.by in {file}")
    assert found["force"] == (False, "default")
    assert shown("report", "x", TCPROBE_TOP="3", TCPROBE_REPORT_TOP="4")["top"] == (4, "TCPROBE_REPORT_TOP")
    assert shown("audit-shapes", "x")["dtype"] == ("float16", f"tool.tcprobe in {file}")
    assert tcprobe("report", "x", "--show-config").stdout.splitlines()[2].split() == ["output", "-", "(default)"]


@pytest.mark.parametrize(
    ("table", "said", "hint"),
    [
        ("[tool.tcprobe.report]\ntpo = 5", "tool.tcprobe.report has no key 'tpo'", "did you mean top?"),
        ("[tool.tcprobe.report]\ntop = {a = 1}", "tool.tcprobe.report.top = {'a': 1}: expected one value", ""),
        ("[tool.tcprobe.report]\ntop = 'many'", "It is set by tool.tcprobe.report.top in ", ""),
        ("[tool.tcprobe]\nreport = 1", "tool.tcprobe.report is no table", ""),
        ("[tool.tcprobe]\nreprot = 1", "tool.tcprobe has no key 'reprot'", ""),
    ],
)
def test_a_wrong_setting_is_told_with_file_and_key(project: Path, table: str, said: str, hint: str) -> None:
    (project / "pyproject.toml").write_text(table)
    done = tcprobe("report", str(project))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split()) and hint in done.stderr and "pyproject.toml" in done.stderr


def test_a_wrong_variable_is_told_by_name() -> None:
    done = tcprobe("report", "x", TCPROBE_REPORT_TOP="many")
    assert done.returncode == 2 and "Invalid value for '--top' / '-n': 'many' is not" in done.stderr
    assert "It is set by TCPROBE_REPORT_TOP." in done.stderr
    assert "TCPROBE" not in tcprobe("report", "x", "--top", "many").stderr


def test_every_verb_has_its_table() -> None:
    assert TABLES == VERBS


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("report", "none.pb", "--json"), "E201"),
        (("report", "none.pb", "--top", "x", "--json"), "E101"),
        (("report", "none.pb", "--format", "text", "--json"), "E101"),
        (("explain", "TC999", "--json"), "E101"),
        (("reprot", "--json"), "E101"),
    ],
)
def test_errors_are_json_where_that_is_asked_for(words: tuple[str, ...], code: str) -> None:
    done = tcprobe(*words)
    assert done.returncode == 2 and done.stderr
    assert json.loads(done.stdout)["error"]["code"] == code


def test_a_choice_that_resembles_one_is_answered_with_it() -> None:
    assert "Did you mean json?" in tcprobe("report", "x", "--format", "jsn").stderr


def test_without_a_word_there_is_help() -> None:
    done = tcprobe(COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  report         Read a profile and report its Tensor Core use: how good, why\n" in done.stdout
    assert "\\n" not in done.stdout and "..." not in done.stdout.replace("[ARGS]...", "")


def test_a_verb_with_a_json_option_of_its_own_shows_its_settings_as_json(project: Path) -> None:
    assert shown("profile")["profiler"] == ("auto", "default")
