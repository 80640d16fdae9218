"""Writing a document: the right format in the right place, whole or not at all."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from tcprobe.errors import OutputError
from tcprobe.flows.write import destination, write_document
from tcprobe.report import RenderSpec
from tests.report.audit.builders import document as audit_document
from tests.report.audit.builders import report
from tests.report.builders import gpu_profile, run
from tests.report.seeds import differing


def test_an_existing_file_stays_without_force(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    with pytest.raises(OutputError, match="exists already") as caught:
        destination("run", None, str(tmp_path / "a.json"))
    assert "--force" in str(caught.value.hint)
    write_document(run(gpu_profile()), RenderSpec(), destination("run", None, str(tmp_path / "a.json"), force=True))
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == 1


def test_a_folder_gets_every_table(tmp_path: Path) -> None:
    files = write_document(
        run(gpu_profile()), RenderSpec(), destination("run", "csv", str(tmp_path / "deep" / "tables"))
    )
    assert [f.name for f in files] == [
        "summary.csv", "kernels.csv", "ops.csv", "layers.csv", "iterations.csv", "devices.csv", "bad_sizes.csv",
        "advice.csv", "metrics.csv",
    ]  # fmt: skip
    assert sorted(p.name for p in (tmp_path / "deep" / "tables").iterdir()) == sorted(f.name for f in files)


def test_a_table_of_an_earlier_report_stops_all(tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_text("mine")
    with pytest.raises(OutputError, match=r"ops\.csv: exists already"):
        write_document(run(gpu_profile()), RenderSpec(), destination("run", "csv", str(tmp_path)))
    assert [p.name for p in tmp_path.iterdir()] == ["ops.csv"]
    assert (tmp_path / "ops.csv").read_text() == "mine"


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
    write_document(run(profile, top, ("kernel",)), RenderSpec(), destination("run", name, None), out)
    assert len(re.findall(r"\bkernel\d", out.getvalue())) == rows


def test_a_file_holds_no_colours_and_no_cut_names(tmp_path: Path) -> None:
    to = destination("run", None, str(tmp_path / "a.txt"))
    write_document(run(gpu_profile()), RenderSpec(width=60, color=True), to)
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
    write_document(run(profile, by=("kernel",)), RenderSpec(), destination("run", name, None), out)
    assert "\\udcff" in raw.getvalue().decode(encoding)
    write_document(run(profile, by=("kernel",)), RenderSpec(), destination("run", name, str(tmp_path / "report.out")))
    assert "\\udcff" in (tmp_path / "report.out").read_text(encoding="utf-8")
    if name == "json":
        assert json.loads(raw.getvalue())["tables"]["kernels"][0]["kernel"] == "k\u00e9\udcff"


def test_a_folder_holds_the_tables_and_rows_that_were_asked_for(tmp_path: Path) -> None:
    to = destination("run", None, f"{tmp_path}/tables/")
    files = write_document(run(gpu_profile(), 1, ("kernel", "op")), RenderSpec(), to)
    assert [path.name for path in files] == ["summary.csv", "kernels.csv", "ops.csv"]
    assert [len(path.read_text().splitlines()) for path in files[1:]] == [2, 2]
    assert len(files[0].read_text().splitlines()) > 2  # the summary is whole


def test_an_audit_is_not_overwritten_without_force(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        destination("audit", None, str(path))
    assert write_document(
        audit_document(report()), RenderSpec(), destination("audit", None, str(path), force=True)
    ) == [path]
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == 1


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tcprobe.report.json.json.dump", broken)
    with pytest.raises(OutputError, match="No space left"):
        write_document(audit_document(report()), RenderSpec(), destination("audit", None, str(tmp_path / "a.json")))
    assert list(tmp_path.iterdir()) == []
