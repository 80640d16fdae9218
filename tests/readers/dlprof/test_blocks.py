"""Iteration reports read in blocks: the same as row by row, and only where all rows are built alike."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.errors import WrongFormat
from tcprobe.readers.dlprof import blocks
from tcprobe.readers.dlprof.blocks import IrregularError, read_blocks
from tcprobe.readers.dlprof.reader import CSV as dlprof_csv
from tests.fixtures.dlprof import make
from tests.support import examples

FILE = Path(make.__file__).parent / "pytorch_1.7/dlprof_iteration.csv"
TEXTS = st.text(st.sampled_from('ab,"\n é<;'), max_size=6) | st.text("k", min_size=60, max_size=70)


def read(rows: list[list[str]], numbers: dict[int, bool], end: str = "\n") -> list[list[object]]:
    """Write rows as DLProf does, read them in blocks, and return them."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    found = read_blocks(io.BytesIO((out.getvalue()[:-1] + end).encode()), len(rows[0]), numbers)
    columns: dict[int, list[object]] = {at: list(values.tolist()) for at, values in found.numbers.items()}
    for segment in found.segments:
        for at, column in enumerate(segment.columns):
            columns[column] = [segment.texts[one][at] for one in segment.ids.tolist()]
    assert found.rows == len(rows)
    return [list(row) for row in zip(*(columns[at] for at in range(len(rows[0]))), strict=True)]


@settings(max_examples=examples(75))
@given(st.data(), st.sampled_from([40, 200, 1 << 19]))
def test_rows_come_back_as_they_were_written(data: st.DataObject, block: int) -> None:
    row = st.tuples(TEXTS, st.integers(0, 10**15 - 1), TEXTS, TEXTS, st.integers(0, 99), TEXTS)
    wanted = [list(one) for one in data.draw(st.lists(row, min_size=1, max_size=12))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        try:
            found = read(
                [[str(cell) for cell in one] for one in wanted],
                {1: True, 4: True},
                data.draw(st.sampled_from(["", "\n"])),
            )
        except IrregularError:
            assert any("\n" in str(cell) for one in wanted for cell in one)  # a piece may end inside of quotes
        else:
            assert found == wanted


def test_segments_are_numbered_in_order_of_appearance() -> None:
    found = read_blocks(io.BytesIO(b"b,1\na,2\nb,3\n"), 2, {1: True})
    assert found.segments[0].texts == [["b"], ["a"]] and found.segments[0].ids.tolist() == [0, 1, 0]


def test_a_blank_cell_is_nan_where_it_may_be_blank() -> None:
    assert repr(read([["a", "1"], ["b", ""]], {1: False})) == "[['a', 1.0], ['b', nan]]"
    with pytest.raises(IrregularError, match="something else than a number"):
        read([["a", "1"], ["b", ""]], {1: True})


@pytest.mark.parametrize(
    "cell",
    ["-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "1_0", ":", "/", "1234567a", "a12345678", "1" * 16, "n/a", "¹"],
)
def test_other_numbers_are_left_to_the_reader_of_rows(cell: str) -> None:
    with pytest.raises(IrregularError):
        read([["a", "5"], ["b", cell]], {1: True})


@pytest.mark.parametrize(
    "text", ["a,1\nb\n", "a,1\nb,2,3\n", "a,1\n\nb,2\n", "a,1\n,\n", 'a,1\n"b,2\n', "a\r,1\nb,2\n"]
)
def test_rows_of_another_build_are_left_to_the_reader_of_rows(text: str) -> None:
    with pytest.raises((IrregularError, csv.Error)):
        read_blocks(io.BytesIO(text.encode()), 2, {1: True})


def test_segments_of_one_hash_are_never_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_hashes", lambda strips, size: size.astype("uint64"))
    with pytest.raises(IrregularError, match="share a hash"):
        read([["abc", "1"], ["abd", "2"]], {1: True})


def test_too_many_distinct_segments_are_left_to_the_reader_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MOST_SEGMENTS", 3)
    with pytest.raises(IrregularError, match="more than 3 distinct segments"):
        read([[f"a{number}", "1"] for number in range(4)], {1: True})


def test_an_error_names_the_row_of_the_file(tmp_path: Path) -> None:
    lines = FILE.read_text().splitlines()
    lines[20] = lines[20].replace(",8,2,1,", ",8,,1,")
    path = tmp_path / FILE.name
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(WrongFormat, match=r"column 'grid y' .* row 19 of the data holds no whole number"):
        dlprof_csv.read([path])
