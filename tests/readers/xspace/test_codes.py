"""Integer codes for names."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.readers.arrays import PADDING, Bytes, combine, dense
from tcprobe.readers.xspace.events import Stats
from tcprobe.readers.xspace.gpu import LONG_TEXT, Index, Texts
from tcprobe.readers.xspace.wire import REF, STRING

ids = st.one_of(st.integers(0, 50), st.integers(-(2**62), 2**62))


@given(st.lists(ids, unique=True, max_size=30), st.lists(ids, max_size=30))
def test_index_finds_each_key_and_nothing_else(keys: list[int], asked: list[int]) -> None:
    asked += keys
    expected = [keys.index(i) if i in keys else -1 for i in asked]
    assert Index(keys).rows(np.array(asked, np.int64)).tolist() == expected


@given(st.lists(ids, max_size=40))
def test_dense_keeps_every_value(values: list[int]) -> None:
    codes, distinct = dense(np.array(values, np.int64))
    assert distinct[codes].tolist() == values
    assert distinct.tolist() == sorted(set(values))


@given(st.lists(st.tuples(ids, st.integers(-1, 3), ids), min_size=1, max_size=40))
def test_combine_gives_equal_rows_one_code(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(c, np.int64) for c in zip(*rows, strict=True)]
    codes, first = combine(columns)
    assert len(first) == len(set(rows))
    assert [rows[first[code]] for code in codes.tolist()] == rows


def stats(kind: int, value: list[int], size: list[int]) -> Stats:
    n = len(value)
    return Stats(
        np.arange(n),
        np.zeros(n, np.int8),
        np.full(n, kind, np.uint8),
        np.array(value, np.int64),
        np.array(size, np.int64),
    )


def test_references_and_strings_share_one_list_of_names() -> None:
    raw = b"relu" + b"conv" + b"relu" + b"conv2" + b"x" * (LONG_TEXT + 1)
    texts = Texts(Bytes(bytearray(raw) + bytearray(PADDING)), {5: "five", 900: "far"})
    assert texts.codes(stats(REF, [900, 5, 6, -1], [0] * 4), 4).tolist() == [1, 0, -1, -1]
    codes = texts.codes(stats(STRING, [0, 4, 8, 12, 17, 0], [4, 4, 4, 5, LONG_TEXT + 1, 0]), 7)
    names = [texts.text(code) for code in codes.tolist()]
    assert names == ["relu", "conv", "relu", "conv2", "x" * (LONG_TEXT + 1), "", None]
    assert codes[0] == codes[2]


def test_strings_that_differ_in_trailing_zeros_are_different() -> None:
    texts = Texts(Bytes(bytearray(b"a\0" + b"ab") + bytearray(PADDING)), {})
    assert texts.codes(stats(STRING, [0, 2], [2, 2]), 2).tolist() == [0, 1]
    assert texts.names == ["a\0", "ab"]
