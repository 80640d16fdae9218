"""`tcprobe audit-shapes --baseline` and `--write-baseline`, as a user runs them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.test_audit_shapes import BAD, CLEAN, HALF, refused, source

KNOWN = ("--baseline", "known.json")
LAYER = "    layers.Conv2D(255, 3, padding='same'),\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a badly sized script and a well sized one, and a baseline that knows the finding."""
    (tmp_path / "bad.py").write_text(BAD, encoding="utf-8")
    (tmp_path / "clean.py").write_text(CLEAN, encoding="utf-8")
    done = source(".", *HALF, *KNOWN, "--write-baseline", cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        0, f"tcprobe: wrote {tmp_path.resolve()}/known.json: known findings at 1 place",
    )  # fmt: skip
    assert "bad.py:6:" in done.stdout
    return tmp_path


def entries(project: Path) -> list[dict[str, object]]:
    loaded: list[dict[str, object]] = json.loads((project / "known.json").read_text(encoding="utf-8"))["findings"]
    return loaded


def test_known_findings_are_counted_and_not_told(project: Path) -> None:
    (project / "bad.py").write_text("# a new line above\n" + BAD, encoding="utf-8")
    done = source("bad.py", *HALF, *KNOWN, cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert "TC101" not in done.stdout
    assert "all suggestions" not in done.stdout
    assert done.stdout.splitlines()[-1] == "Found nothing new in 2 layers (1 known in known.json)."
    assert "bad.py:7:19: known: TC101 " in source("bad.py", *HALF, *KNOWN, "-v", cwd=project).stdout
    over = source("bad.py", *HALF, *KNOWN, "--fail-over", "0", "--fail-on", "note", cwd=project)
    assert over.returncode == 0


def test_another_equal_finding_is_new(project: Path) -> None:
    (project / "bad.py").write_text(BAD.replace(LAYER, LAYER * 2), encoding="utf-8")
    done = source("bad.py", *HALF, *KNOWN, cwd=project)
    assert done.returncode == 1
    assert "bad.py:7:19: TC101 " in done.stdout
    assert "bad.py:6:19: " not in done.stdout
    assert "(1 known in known.json)" in done.stdout


def test_what_is_gone_is_told_and_dropped(project: Path) -> None:
    (project / "bad.py").write_text(CLEAN, encoding="utf-8")
    gone = "1 finding of known.json is gone: --write-baseline drops it.\n"
    done = source(".", *HALF, *KNOWN, cwd=project)
    assert (done.returncode, gone in done.stdout) == (0, True)
    for part in (("clean.py",), ("bad.py", "--select", "TC2")):
        assert gone not in source(*part, *HALF, *KNOWN, cwd=project).stdout
        assert source(*part, *HALF, *KNOWN, "--write-baseline", cwd=project).returncode == 0
        assert len(entries(project)) == 1
    assert source("bad.py", *HALF, *KNOWN, "--write-baseline", cwd=project).returncode == 0
    assert entries(project) == []


def test_entries_of_files_that_are_no_more_are_gone(project: Path) -> None:
    (project / "bad.py").unlink()
    assert "is gone" in source("clean.py", *HALF, *KNOWN, cwd=project).stdout


def test_paths_are_relative_to_the_baseline(project: Path) -> None:
    (project / "src").mkdir()
    (project / "bad.py").rename(project / "src/bad.py")
    assert source("src", *HALF, *KNOWN, "--write-baseline", cwd=project).returncode == 0
    assert [entry["file"] for entry in entries(project)] == ["src/bad.py"]
    assert source(".", *HALF, "--baseline", "../known.json", cwd=project / "src").returncode == 0


def test_the_settings_name_a_baseline(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.tcprobe]\nbaseline = "known.json"\n', encoding="utf-8")
    (project / "src").mkdir()
    (project / "bad.py").rename(project / "src/bad.py")
    assert source("src", *HALF, cwd=project).returncode == 1
    assert source(".", *HALF, "--write-baseline", cwd=project / "src").returncode == 0
    assert source("src", *HALF, cwd=project).returncode == 0


def test_known_findings_are_not_fixed(project: Path) -> None:
    assert source("bad.py", *HALF, *KNOWN, "--fix", cwd=project).stderr == "tcprobe: nothing to fix\n"
    assert (project / "bad.py").read_text(encoding="utf-8") == BAD


def test_formats_mark_known_findings_or_leave_them_out(project: Path) -> None:
    def printed(form: str) -> str:
        return source("bad.py", *HALF, *KNOWN, "--format", form, cwd=project).stdout

    body = json.loads(printed("json"))
    (audited,) = body["audited"]
    assert (len(audited["known"]), audited["findings"], body["summary"]["known"]) == (1, [], 1)
    assert (Path(body["baseline"]["file"]).name, body["baseline"]["gone"]) == ("known.json", 0)
    assert [row["known"] for row in csv.DictReader(printed("csv").splitlines())] == ["true"]
    assert json.loads(printed("sarif"))["runs"][0]["results"] == []
    assert printed("github") == ""
    assert "(1 known in known.json)" in printed("markdown")


def test_a_damaged_baseline_stays_as_it_is(project: Path) -> None:
    (project / "known.json").write_text("{", encoding="utf-8")
    for more in ((), ("--write-baseline",)):
        assert "known.json: is no baseline" in refused("--mode", "source", "bad.py", *KNOWN, *more, cwd=project)
    assert (project / "known.json").read_text(encoding="utf-8") == "{"


def test_what_cannot_be_asked_of_a_baseline(project: Path) -> None:
    assert "none.json: no such baseline" in refused(
        "bad.py", "--mode", "source", "--baseline", "none.json", cwd=project
    )
    assert "--write-baseline needs a file" in refused("bad.py", "--write-baseline", cwd=project)
    assert "--diff stands alone" in refused("bad.py", *KNOWN, "--diff", "--write-baseline", cwd=project)


def test_a_file_that_fails_keeps_its_entries(project: Path) -> None:
    (project / "bad.py").write_text("def f(:\n", encoding="utf-8")
    done = source(".", *HALF, *KNOWN, "--write-baseline", cwd=project)
    assert done.returncode == 2
    assert len(entries(project)) == 1
