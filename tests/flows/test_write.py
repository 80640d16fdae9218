"""Writing a report: the right format in the right place, whole or not at all."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from tcprobe.errors import OutputError, UsageError
from tcprobe.flows.write import report as write
from tcprobe.flows.write.report import destination, write_report
from tcprobe.report.base import ReportSpec
from tests.report.builders import gpu_profile
from tests.report.seeds import differing


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
    to = destination(name, output)
    assert (to.reporter.FORMAT, to.folder) == (chosen, folder)
    assert to.path == (None if output in (None, "-") else Path(str(output)))


def test_an_existing_folder_is_one_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "out.json").mkdir()
    assert destination(None, str(tmp_path / "out.json")).folder


@pytest.mark.parametrize(
    ("name", "output", "said"),
    [("yaml", None, "no format yaml"), (None, "a.xlsx", "tells no format"), ("json", "dir/", "is a folder")],
)
def test_what_cannot_be_is_refused(
    name: str | None, output: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        destination(name, output)


def test_an_existing_file_stays_without_force(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    with pytest.raises(OutputError, match="exists already") as caught:
        destination(None, str(tmp_path / "a.json"))
    assert "--force" in str(caught.value.hint)
    write_report(gpu_profile(), ReportSpec(), destination(None, str(tmp_path / "a.json"), force=True))
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == 1


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="there is no folder"):
        destination(None, str(tmp_path / "no" / "a.json"))


def test_a_file_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "tables").touch()
    with pytest.raises(OutputError, match="no folder"):
        destination("csv", str(tmp_path / "tables"))


def test_a_folder_gets_every_table(tmp_path: Path) -> None:
    files = write_report(gpu_profile(), ReportSpec(), destination("csv", str(tmp_path / "deep" / "tables")))
    assert [f.name for f in files] == [
        "summary.csv", "kernels.csv", "ops.csv", "layers.csv", "iterations.csv", "devices.csv", "bad_sizes.csv",
        "metrics.csv",
    ]  # fmt: skip
    assert sorted(p.name for p in (tmp_path / "deep" / "tables").iterdir()) == sorted(f.name for f in files)


def test_a_table_of_an_earlier_report_stops_all(tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_text("mine")
    with pytest.raises(OutputError, match=r"ops\.csv: exists already"):
        write_report(gpu_profile(), ReportSpec(), destination("csv", str(tmp_path)))
    assert [p.name for p in tmp_path.iterdir()] == ["ops.csv"]
    assert (tmp_path / "ops.csv").read_text() == "mine"


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(out: object) -> None:
        raise OSError(28, "No space left on device")

    jobs = [(tmp_path / "a.csv", lambda out: None), (tmp_path / "b.csv", fail)]
    with pytest.raises(OutputError, match="No space left"):
        write.write_files(jobs, force=False)
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_stands_until_the_new_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")

    def fail(out: object) -> None:
        raise UsageError("cannot")

    with pytest.raises(UsageError):
        write.write_files([(tmp_path / "a.csv", fail)], force=True)
    assert (tmp_path / "a.csv").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_the_same_profile_gives_the_same_files_whatever_the_order_of_sets() -> None:
    assert differing("file ") == []


@pytest.mark.parametrize(
    ("name", "top", "rows"), [("csv", None, 30), ("csv", 3, 3), ("csv", 0, 30), ("text", None, 10), ("text", 0, 30)]
)
def test_people_see_ten_rows_programs_all(name: str, top: int | None, rows: int) -> None:
    from tests.report.builders import table

    kernels = [{"kernel": f"kernel{i}", "uses_tc": "no", "evidence": "e", "sum_ns": i} for i in range(30)]
    out = io.StringIO()
    profile = gpu_profile().with_tables(table("kernels", *kernels))  # type: ignore[arg-type]
    write_report(profile, ReportSpec(top, ("kernel",)), destination(name, None), out)
    assert len(re.findall(r"\bkernel\d", out.getvalue())) == rows


def test_a_file_holds_no_colours_and_no_cut_names(tmp_path: Path) -> None:
    to = destination(None, str(tmp_path / "a.txt"))
    write_report(gpu_profile(), ReportSpec(width=60, color=True), to)
    text = (tmp_path / "a.txt").read_text()
    assert "\x1b" not in text
    assert "wgrad2d_grouped_direct_kernel<__half, __half, float, int, (bool)1" in text


@pytest.mark.parametrize("name", ["text", "csv", "json", "markdown"])
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_name_that_cannot_be_encoded_is_escaped(name: str, encoding: str, tmp_path: Path) -> None:
    from tests.report.builders import table

    kernel = {"kernel": "k\u00e9\udcff", "uses_tc": "no", "evidence": "e", "sum_ns": 1}
    profile = gpu_profile().with_tables(table("kernels", kernel))
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, newline="")
    write_report(profile, ReportSpec(by=("kernel",)), destination(name, None), out)
    assert "\\udcff" in raw.getvalue().decode(encoding)
    write_report(profile, ReportSpec(by=("kernel",)), destination(name, str(tmp_path / "report.out")))
    assert "\\udcff" in (tmp_path / "report.out").read_text(encoding="utf-8")
    if name == "json":
        assert json.loads(raw.getvalue())["tables"]["kernels"][0]["kernel"] == "k\u00e9\udcff"


def test_a_folder_holds_the_tables_and_rows_that_were_asked_for(tmp_path: Path) -> None:
    to = destination(None, f"{tmp_path}/tables/")
    files = write_report(gpu_profile(), ReportSpec(1, ("kernel", "op")), to)
    assert [path.name for path in files] == ["summary.csv", "kernels.csv", "ops.csv"]
    assert [len(path.read_text().splitlines()) for path in files[1:]] == [2, 2]
    assert len(files[0].read_text().splitlines()) > 2  # the summary is whole
