"""Tables as text: they fit, and no number is ever cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tcprobe.report.document import ColumnHead, Section
from tcprobe.report.grid import escape_markdown, left_out, markdown_lines, text_lines

KERNEL = "cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4"
SECTION = Section(
    "Kernels",
    (
        ColumnHead("kernel", least=20),
        ColumnHead("time", right=True),
        ColumnHead("why", wraps=True),
        ColumnHead("grid", rank=1),
    ),
    ((KERNEL, "12345.6 ms", "its inner dimension is no multiple of eight, so the library pads", "640,1,1"),),
)


def test_without_a_width_nothing_is_cut() -> None:
    head, row = text_lines(SECTION, None)
    assert KERNEL in row
    assert row.endswith("  640,1,1  its inner dimension is no multiple of eight, so the library pads")  # long ones last
    assert head.split() == ["kernel", "time", "grid", "why"]
    assert left_out(SECTION, None) == 0


def test_without_a_width_no_row_is_wider_than_its_text() -> None:
    """A name of 300 characters makes no other row longer; it stands last, and is not padded."""
    rows = (("n" * 300, "1"), ("short", "22"))
    section = Section("t", (ColumnHead("name"), ColumnHead("n", right=True)), rows)
    assert text_lines(section, None) == [" n  name", f" 1  {'n' * 300}", "22  short"]


def test_a_column_that_tells_rows_apart_stays() -> None:
    headings = (ColumnHead("time", right=True), ColumnHead("same", rank=1), ColumnHead("where", rank=2))
    section = Section("t", headings, (("1 ms", "x" * 30, "here"), ("1 ms", "x" * 30, "there")))
    assert text_lines(section, 24) == ["time  where", "1 ms  here", "1 ms  there"]


def test_a_narrow_terminal_loses_rank_first_then_the_middle_of_names() -> None:
    lines = text_lines(SECTION, 64)
    assert max(map(len, lines)) <= 64
    assert "grid" not in lines[0]
    assert left_out(SECTION, 64) == 1
    assert "12345.6 ms" in lines[1]
    assert lines[1].startswith("cutlass..nn_align4  ")


def test_a_sentence_wraps_below_itself_and_loses_no_word() -> None:
    lines = text_lines(SECTION, 64)
    start = lines[0].index("why")
    assert " ".join(line[start:].strip() for line in lines[1:]) == SECTION.cells[0][2]
    assert all(not line[:start].strip() for line in lines[2:])


def test_a_source_line_keeps_its_end() -> None:
    section = Section(
        "t", (ColumnHead("source", least=20, path=True), ColumnHead("n")), (("/home/u/project/train_gan.py:163", "1"),)
    )
    assert text_lines(section, 23)[1] == "..t/train_gan.py:163  1"


def test_no_rows_no_lines() -> None:
    assert text_lines(Section("Empty", (ColumnHead("a"),)), 80) == []
    assert markdown_lines(Section("Empty", (ColumnHead("a"),))) == []


cells = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=90)
NUMBERS = st.integers(0, 10**12).map(str)


@given(st.lists(st.tuples(cells, NUMBERS, cells), min_size=1, max_size=5), st.integers(72, 160))
def test_every_table_fits_and_keeps_its_numbers(rows: list[tuple[str, str, str]], width: int) -> None:
    headings = (ColumnHead("name", least=24), ColumnHead("n", right=True), ColumnHead("why", wraps=True))
    lines = text_lines(Section("t", headings, tuple(rows)), width)
    assert max(map(len, lines)) <= width
    for _, number, _ in rows:
        assert any(number in line.split() for line in lines)


def test_markdown_escapes_what_a_name_may_hold() -> None:
    section = Section("t", (ColumnHead("name"), ColumnHead("n", right=True)), (("a|b<script>`*_c", "1"),))
    assert markdown_lines(section) == [
        "| name | n |",
        "| --- | ---: |",
        "| a\\|b&lt;script&gt;\\`\\*\\_c | 1 |",
    ]


@given(st.text())
def test_escaped_text_has_no_bare_markup(text: str) -> None:
    escaped = escape_markdown(text).replace("<!-- -->", "")
    assert "<" not in escaped
    assert ">" not in escaped


def test_names_are_squeezed_before_a_row_is_as_another_or_too_wide() -> None:
    """Kernel, time and op take 20, 4 and 16 columns and two gaps of 2: of 40 columns 16 are left for the kernel."""
    heads = (ColumnHead("kernel", least=20), ColumnHead("time", right=True), ColumnHead("op", least=16, rank=1))
    one = Section(
        "", heads, ((KERNEL, "1 ms", "model/first/layer/MatMul"), (KERNEL, "1 ms", "model/other/layer/MatMul"))
    )
    _, *rows = text_lines(one, 40)
    assert len(set(rows)) == 2 and max(map(len, rows)) <= 40
