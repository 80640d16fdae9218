"""Bytes and rows for array code: a file as eight-byte words, and small codes for rows that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcprobe import grouping
from tcprobe.readers.protobuf import Buffer

Ints: TypeAlias = NDArray[np.int64]

PADDING: Final = 64


class Bytes:
    """Bytes in memory, for array code: single bytes, and eight-byte words at any position.

    Args:
        data: the bytes and `PADDING` more, so that array code may look a few bytes ahead.
    """

    __slots__ = ("data", "size", "u8", "words")

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.size = len(data) - PADDING
        self.u8: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        # a void type, because numpy gathers unaligned items of it without a conversion
        self.words: NDArray[Any] = np.ndarray((len(data) - 7,), "V8", data, 0, (1,))

    def word(self, at: Ints) -> NDArray[np.uint64]:
        """Return the little-endian eight bytes at each position."""
        return self.words[at].view("<u8")


def dense(values: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return (codes, distinct values) with ``distinct[codes] == values``; distinct values ascend."""
    (distinct,), codes = grouping.distinct_rows(values)
    return codes.astype(np.int64), distinct


def combine(columns: Sequence[NDArray[Any]]) -> tuple[Ints, Ints]:
    """Return (codes, first) for the distinct rows of equally long columns; `first` is a row of each code."""
    codes = grouping.distinct_rows(*(column.astype(np.int64, copy=False) for column in columns))[1].astype(np.int64)
    first = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, first


def distinct_rows(*columns: NDArray[Any]) -> tuple[Ints, Ints]:
    """Return the first row of each distinct combination in order of appearance, and each row's combination."""
    codes, first = combine(columns)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[codes]
