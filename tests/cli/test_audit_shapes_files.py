"""What `tcprobe audit-shapes` reads: standard input, several names, excluded files, notebooks; as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.cli.test_audit_shapes import BAD, CLEAN, HALF, refused, source
from tests.support import ROOT, notebook_text

HEAD, MODEL = BAD.split("\n\n", 1)
CELLS = (["%matplotlib inline\n", *HEAD.splitlines(keepends=True)], "!nvidia-smi", MODEL)


def piped(*args: str, text: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [warm.tcprobe(), "-m", "tcprobe", "audit-shapes", *args]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, env=env, cwd=cwd, timeout=60
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a badly sized script, a well sized one, and a badly sized notebook."""
    (tmp_path / "bad.py").write_text(BAD, encoding="utf-8")
    (tmp_path / "clean.py").write_text(CLEAN, encoding="utf-8")
    (tmp_path / "train.ipynb").write_text(notebook_text(*CELLS), encoding="utf-8")
    return tmp_path


def test_standard_input_is_read_and_never_run(project: Path) -> None:
    done = piped("-", *HALF, text=BAD, cwd=project)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("-:6:19: TC101 ")
    assert piped("-", *HALF, text=CLEAN, cwd=project).returncode == 0
    traced = piped("--mode", "traced", "-", text=BAD, cwd=project)
    assert (traced.returncode, traced.stdout) == (2, "")
    assert traced.stderr.startswith("tcprobe: error: standard input is read, never run\nhint: ")


def test_standard_input_goes_by_its_name(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.tcprobe]\nexclude = ["gen"]\n[tool.tcprobe.per-file-ignores]\n"new.py" = ["TC1"]\n', encoding="utf-8"
    )
    named = ("--stdin-filename", "src/model.py", "-", *HALF)
    assert piped(*named, text=BAD, cwd=project).stdout.startswith("src/model.py:6:19: TC101 ")
    assert piped("--stdin-filename", "src/new.py", "-", *HALF, text=BAD, cwd=project).returncode == 0
    excluded = ("--stdin-filename", "gen/model.py", "--force-exclude", "-", *HALF)
    assert piped(*excluded, text=BAD, cwd=project).returncode == 0
    notebook = piped("--stdin-filename", "n.ipynb", "-", *HALF, text=notebook_text(*CELLS), cwd=project)
    assert notebook.stdout.startswith("n.ipynb:cell 3:3:19: TC101 ")
    assert "--stdin-filename names what - reads" in refused("--stdin-filename", "a.py", "bad.py", cwd=project)


def test_standard_input_stands_alone_and_may_be_broken(project: Path) -> None:
    assert "- reads standard input and stands alone" in refused("-", "bad.py", cwd=project)
    done = piped("-", text="def f(:\n", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 1" in done.stderr


def test_fixes_of_standard_input_go_to_standard_output(project: Path) -> None:
    text = BAD.replace("\n", "\r\n")
    command = [warm.tcprobe(), "-m", "tcprobe", "audit-shapes", "--fix", "-", *HALF]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False, env=env, cwd=project)
    assert (done.returncode, done.stdout) == (0, text.replace("255", "256").encode())
    assert b"fixed: change filters 255 to 256" in done.stderr
    assert b"Found nothing in 2 layers" in done.stderr
    assert not (project / "-").exists()


def test_the_diff_of_standard_input(project: Path) -> None:
    done = piped("--diff", "--stdin-filename", "src/m.py", "-", *HALF, text=BAD, cwd=project)
    assert done.returncode == 1
    assert done.stdout.startswith("--- a/src/m.py\n+++ b/src/m.py\n")
    assert "+    layers.Conv2D(256, 3, padding='same'),\n" in done.stdout


def test_of_several_names_the_good_ones_are_audited(project: Path) -> None:
    (project / "empty").mkdir()
    done = source("nosuch.py", "bad.py", "empty", *HALF, cwd=project)
    assert (done.returncode, done.stderr) == (2, "")
    assert "bad.py:6:19: TC101 " in done.stdout
    assert "nosuch.py: not audited: no such file or folder\n" in done.stdout
    assert "empty: not audited: no Python file in this folder\n" in done.stdout
    assert "2 files were not audited" in done.stdout
    alone = json.loads(source("nosuch.py", "none.py", "--format", "json", cwd=project).stdout)
    assert [Path(f["file"]).name for f in alone["failed"]] == ["nosuch.py", "none.py"]


def test_what_is_excluded(project: Path) -> None:
    assert source(".", *HALF, "--exclude", "bad*", "--exclude", "*.ipynb", cwd=project).returncode == 0
    assert source("bad.py", *HALF, "--exclude", "bad*", cwd=project).returncode == 1
    forced = source("bad.py", *HALF, "--exclude", "bad*", "--force-exclude", cwd=project)
    assert (forced.returncode, forced.stderr) == (0, "tcprobe: nothing to audit: everything named is excluded\n")


def test_settings_exclude_relative_to_their_folder(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.tcprobe]\nexclude = ["src/gen", "*.ipynb"]\n', encoding="utf-8")
    (project / "src/gen").mkdir(parents=True)
    (project / "bad.py").rename(project / "src/gen/bad.py")
    assert source("src", *HALF, cwd=project).returncode == 0
    assert source(".", *HALF, cwd=project / "src").returncode == 0
    assert source("src/gen/bad.py", *HALF, cwd=project).returncode == 1
    assert source(".", *HALF, "--exclude", "other", cwd=project).returncode == 1


def test_findings_can_leave_the_exit_code_alone(project: Path) -> None:
    assert source("bad.py", *HALF, "--exit-zero", "--fail-over", "0", cwd=project).returncode == 0
    assert source("bad.py", *HALF, "--exit-zero", "--diff", cwd=project).returncode == 0
    assert source("bad.py", "nosuch.py", *HALF, "--exit-zero", cwd=project).returncode == 2


def test_a_notebook_is_read_as_one_module(project: Path) -> None:
    done = source("train.ipynb", *HALF, cwd=project)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("train.ipynb:cell 3:3:19: TC101 Conv2D 'conv2d' filters=255 is not a multiple of 8 ")
    assert "[*]" not in done.stdout
    folder = source(".", *HALF, cwd=project)
    assert "train.ipynb:cell 3:3:19: " in folder.stdout


def test_a_notebook_in_other_formats(project: Path) -> None:
    def printed(form: str) -> str:
        return source("train.ipynb", *HALF, "--format", form, cwd=project).stdout

    lines = (project / "train.ipynb").read_text(encoding="utf-8").split("\n")
    row = next(number for number, line in enumerate(lines, 1) if "255" in line)
    finding = json.loads(printed("json"))["audited"][0]["findings"][0]
    place = {"cell": 3, "line": 3, "column": 19, "end_line": 3, "end_column": 22}
    assert {key: finding["place"][key] for key in place} == place
    assert f",line={row}::cell 3:3: Conv2D" in printed("github")
    (result, *_) = json.loads(printed("sarif"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": row}
    assert result["message"]["text"].startswith("cell 3:3: Conv2D")
    assert printed("csv").splitlines()[1].startswith("train.ipynb,3,19,3,22,TC101,")
    assert printed("csv").splitlines()[1].endswith(",3")


def test_comments_silence_in_a_notebook(project: Path) -> None:
    silent = MODEL.replace("255, 3, padding='same'),", "255, 3, padding='same'),  # noqa: TC101")
    idle = "x = 1  # tcprobe: ignore"
    (project / "train.ipynb").write_text(notebook_text(HEAD, silent, idle), encoding="utf-8")
    done = source("train.ipynb", *HALF, cwd=project)
    assert done.returncode == 0
    assert "train.ipynb:cell 3:1:8: unused suppression: " in done.stdout
    assert "(1 suppressed)" in done.stdout


def test_a_notebook_is_never_changed(project: Path) -> None:
    before = (project / "train.ipynb").read_bytes()
    done = source("train.ipynb", "--fix", *HALF, cwd=project)
    assert (done.returncode, (project / "train.ipynb").read_bytes()) == (1, before)
    assert done.stderr == "tcprobe: nothing to fix\ntcprobe: notebooks are never changed: train.ipynb\n"
    both = source(".", "--fix", *HALF, cwd=project)
    assert (both.returncode, (project / "train.ipynb").read_bytes()) == (1, before)
    assert (project / "bad.py").read_text(encoding="utf-8") == CLEAN
    diff = source("train.ipynb", "--diff", *HALF, cwd=project)
    assert (diff.returncode, diff.stdout) == (0, "")


def test_a_notebook_is_never_run(project: Path) -> None:
    for given in (("--mode", "traced", "train.ipynb"), ("--run", "train.ipynb"), ("train.ipynb:make",)):
        assert "train.ipynb: a notebook is read, never run" in refused(*given, cwd=project)


def test_what_of_a_notebook_cannot_be_read_is_named(project: Path) -> None:
    (project / "train.ipynb").write_text(notebook_text(*CELLS, "%%writefile m.py\nimport keras"), encoding="utf-8")
    done = source("train.ipynb", *HALF, "--verbose", cwd=project)
    assert "train.ipynb:cell 4:1:1: not judged: cell 4: is a cell of %%writefile\n" in done.stdout
    (project / "train.ipynb").write_text(notebook_text("%%writefile m.py\nimport keras"), encoding="utf-8")
    assert "is a cell of %%writefile (1)" in source("train.ipynb", cwd=project).stdout
    (project / "train.ipynb").write_text(notebook_text("print 'no layers here'"), encoding="utf-8")
    assert "judged" not in source("train.ipynb", cwd=project).stdout


def test_notebooks_that_are_none(project: Path) -> None:
    (project / "damaged.ipynb").write_text('{"cells": [', encoding="utf-8")
    (project / "old.ipynb").write_text('{"nbformat": 3, "worksheets": []}', encoding="utf-8")
    (project / "other.ipynb").write_text(notebook_text("x <- 1", language_info={"name": "R"}), encoding="utf-8")
    assert "damaged.ipynb: is no notebook" in refused("--mode", "source", "damaged.ipynb", cwd=project)
    assert "nbformat 3" in refused("--mode", "source", "old.ipynb", cwd=project)
    other = source("other.ipynb", cwd=project)
    assert (other.returncode, "is a notebook in r, not in Python" in other.stdout) == (0, True)
    (project / "damaged.ipynb").unlink()
    folder = source(".", *HALF, "--verbose", cwd=project)
    assert folder.returncode == 1
    assert "old.ipynb: not judged: old.ipynb: is a notebook of nbformat 3; 4 and later are read\n" in folder.stdout
