"""The baseline: what is known, what is new, what is gone, and files that are none."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.errors import InputError, MissingInput, UnsupportedVersion, WrongFormat
from tcprobe.flows.audit.options import Baseline, KnownFindings, counted, read_baseline, write_entries
from tcprobe.schema.finding import Audited, AuditReport, Finding, Identity
from tcprobe.schema.model import Place
from tcprobe.schema.statement import say

FILE = "/p/src/m.py"
BASE = Path("/p/baseline.json")
ENTRY = Identity("TC101", "src/m.py", "Dense", "units", 250)


def finding(line: int, size: int = 250, column: int = 5, layer: str = "dense") -> Finding:
    place = Place(FILE, line, column)
    return Finding("TC101", say("not_a_multiple"), place, "error", layer, "Dense", "units", size, 256)


def known(counts: dict[Identity, int], *findings: Finding) -> list[int]:
    among = KnownFindings(Baseline(BASE, counts)).among(findings, FILE)
    return sorted(f.place.line for f in among if f.place)


def test_of_equal_findings_the_first_in_the_file_are_known() -> None:
    three = (finding(30), finding(10), finding(20))
    assert known({ENTRY: 2}, *three) == [10, 20]
    assert known({ENTRY: 3}, *three) == [10, 20, 30]
    assert known({}, *three) == []
    assert KnownFindings(None).among(three, FILE) == frozenset()


def test_lines_and_names_of_layers_do_not_matter_but_size_and_file_do() -> None:
    assert known({ENTRY: 1}, finding(99, layer="dense_7")) == [99]
    assert known({ENTRY: 1}, finding(99, size=251)) == []
    assert known({replace(ENTRY, file="m.py"): 1}, finding(99)) == []


def test_layers_of_one_place_count_once() -> None:
    loop = (finding(10, layer="dense"), finding(10, layer="dense_1"), finding(12))
    assert known({ENTRY: 1}, *loop) == [10, 10]
    report = AuditReport((Audited("m", FILE, "source", findings=loop),))
    assert counted(Baseline(BASE), report) == {ENTRY: 2}


def test_the_places_of_one_model_count_for_the_next() -> None:
    judged = KnownFindings(Baseline(BASE, {ENTRY: 1}))
    assert len(judged.among([finding(10)], FILE)) == 1
    assert len(judged.among([finding(10)], FILE)) == 1
    assert judged.among([finding(20)], FILE) == frozenset()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file, plain = tmp_path / "b.json", Identity("TC201", "a/\u00fc m.py", None, None, None)
    out = io.StringIO()
    write_entries({ENTRY: 2, plain: 1}, out)
    assert out.getvalue() == (
        '{\n "version": 1,\n "findings": [\n'
        '  {"file": "a/\u00fc m.py", "code": "TC201"},\n'
        '  {"file": "src/m.py", "code": "TC101", "layer_class": "Dense", "dimension": "units", "size": 250, "count": 2}'
        "\n ]\n}\n"
    )
    file.write_text(out.getvalue(), encoding="utf-8")
    assert read_baseline(file).counts == {ENTRY: 2, plain: 1}


def test_an_empty_baseline_and_entries_that_two_branches_wrote(tmp_path: Path) -> None:
    file, out = tmp_path / "b.json", io.StringIO()
    write_entries({}, out)
    file.write_text(out.getvalue(), encoding="utf-8")
    assert read_baseline(file).counts == {}
    entry = {"file": "src/m.py", "code": "TC101", "layer_class": "Dense", "dimension": "units", "size": 250}
    file.write_text(json.dumps({"version": 1, "findings": [entry, entry]}), encoding="utf-8")
    assert read_baseline(file).counts == {ENTRY: 2}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "x = 1", '{"version": 1}', '{"version": 1, "findings": [1]}', "[" * 10**5,
        '{"version": 1, "findings": [{"code": "TC101"}]}',
        '{"version": 1, "findings": [{"code": "TC101", "file": "m.py", "count": 0}]}',
        '{"version": 1, "findings": [{"code": "TC101", "file": "m.py", "size": "x"}]}',
        '{"version": 1, "findings": [{"code": "TC101", "file": "m.py", "line": 3}]}',
        '{"version": 1, "findings": [\n<<<<<<< HEAD\n]}',
    ],
)  # fmt: skip
def test_what_is_no_baseline(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.json").write_text(text, encoding="utf-8")
    with pytest.raises(WrongFormat) as error:
        read_baseline(tmp_path / "b.json", may_be_missing=True)
    assert error.value.hint


def test_later_versions_missing_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"version": 2, "findings": []}', encoding="utf-8")
    with pytest.raises(UnsupportedVersion, match="version 2"):
        read_baseline(tmp_path / "b.json")
    with pytest.raises(MissingInput):
        read_baseline(tmp_path / "none.json")
    assert read_baseline(tmp_path / "none.json", may_be_missing=True).counts == {}
    with pytest.raises(InputError, match="cannot be read"):
        read_baseline(tmp_path)
