"""Where a document goes and as what: told before any work, in the words of each verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.errors import OutputError, UsageError
from tcprobe.flows.write import destination
from tcprobe.report import FORMATS, DocumentKind


@pytest.mark.parametrize(
    ("name", "output", "chosen", "folder"),
    [
        (None, None, "text", False),
        (None, "-", "text", False),
        ("json", None, "json", False),
        ("markdown", "-", "markdown", False),
        (None, "a.json", "json", False),
        (None, "a.CSV", "csv", False),
        (None, "a.md", "markdown", False),
        (None, "a.markdown", "markdown", False),
        (None, "a.txt", "text", False),
        ("markdown", "a.txt", "markdown", False),
        ("text", "report", "text", False),
        (None, "tables", "csv", True),
        ("csv", "tables", "csv", True),
        (None, "v1.2/", "csv", True),
    ],
)
def test_format_and_place(
    name: str | None, output: str | None, chosen: str, folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    to = destination("run", name, output)
    assert (to.renderer.name, to.folder) == (chosen, folder)
    assert to.path == (None if output in (None, "-") else Path(str(output)))


def test_an_existing_folder_is_one_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "out.json").mkdir()
    assert destination("run", None, str(tmp_path / "out.json")).folder


@pytest.mark.parametrize(
    ("name", "output", "said"),
    [("yaml", None, "no format yaml"), (None, "a.xlsx", "tells no format"), ("json", "dir/", "is a folder")],
)
def test_what_a_run_cannot_be_is_refused(
    name: str | None, output: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        destination("run", name, output)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="there is no folder"):
        destination("run", None, str(tmp_path / "no" / "a.json"))


def test_a_file_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "tables").touch()
    with pytest.raises(OutputError, match="no folder"):
        destination("run", "csv", str(tmp_path / "tables"))


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.txt", "text"),
        ("a.json", "json"),
        ("a.csv", "csv"),
        ("a.md", "markdown"),
        ("a.SARIF", "sarif"),
        ("a.xml", "junit"),
    ],
)
def test_the_ending_tells_the_format(tmp_path: Path, name: str, format_: str) -> None:
    found = [destination("audit", given, str(tmp_path / name)).renderer.name for given in (None, "github")]
    assert found == [format_, "github"]


def test_what_an_audit_cannot_be_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tells no format"):
        destination("audit", None, str(tmp_path / "a.xyz"))
    with pytest.raises(UsageError, match="no format pdf"):
        destination("audit", "pdf", None)
    with pytest.raises(OutputError, match="is a folder"):
        destination("audit", "json", str(tmp_path))
    with pytest.raises(OutputError, match="there is no folder"):
        destination("audit", None, str(tmp_path / "no/a.json"))


@pytest.mark.parametrize(
    ("kind", "output", "message", "hint"),
    [
        (
            "run",
            "a.xyz",
            "the ending .xyz tells no format",
            "end it in .txt, .csv, .json, .md, .markdown, .html, .pftrace, .perfetto-trace, or give --format",
        ),
        (
            "audit",
            "a.xyz",
            "its ending tells no format",
            "end it in .txt, .json, .csv, .md, .markdown, .html, .sarif, .xml, or give --format",
        ),
    ],
)
def test_each_verb_names_its_own_endings(kind: DocumentKind, output: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        destination(kind, None, output)
    assert (caught.value.message, caught.value.hint) == (f"-o {output}: {message}", hint)


def test_each_verb_names_its_own_formats() -> None:
    for kind in FORMATS:
        with pytest.raises(UsageError) as caught:
            destination(kind, "nosuch", None)
        assert caught.value.hint == f"there are {', '.join(FORMATS[kind])}"


def test_an_audit_is_no_folder_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="its ending tells no format"):
        destination("audit", None, "tables/")
    assert destination("audit", "csv", "tables").folder is False
