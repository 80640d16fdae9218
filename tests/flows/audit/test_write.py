"""Where a report of an audit goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcprobe.errors import OutputError, UsageError
from tcprobe.flows.audit.write import audit_destination, write_audit
from tests.report.audit.builders import SPEC, report


@pytest.mark.parametrize(
    ("name", "format_"),
    [("a.txt", "text"), ("a.json", "json"), ("a.csv", "csv"), ("a.md", "markdown"), ("a.SARIF", "sarif")],
)
def test_the_ending_tells_the_format(tmp_path: Path, name: str, format_: str) -> None:
    found = [audit_destination(given, str(tmp_path / name)).reporter.FORMAT for given in (None, "github")]
    assert found == [format_, "github"]


def test_what_cannot_be_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tells no format"):
        audit_destination(None, str(tmp_path / "a.xyz"))
    with pytest.raises(UsageError, match="no format html"):
        audit_destination("html", None)
    with pytest.raises(OutputError, match="is a folder"):
        audit_destination("json", str(tmp_path))
    with pytest.raises(OutputError, match="there is no folder"):
        audit_destination(None, str(tmp_path / "no/a.json"))


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        audit_destination(None, str(path))
    assert write_audit(report(), SPEC, audit_destination(None, str(path), force=True)) == [path]
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == 1


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tcprobe.report.audit.json.json.dump", broken)
    with pytest.raises(OutputError, match="No space left"):
        write_audit(report(), SPEC, audit_destination(None, str(tmp_path / "a.json")))
    assert list(tmp_path.iterdir()) == []
