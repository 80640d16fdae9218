"""Number the names that events refer to, so that a million events cost arrays and never a million strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.grouping import positions_in
from tcprobe.readers.arrays import Bytes, Ints
from tcprobe.readers.xspace.events import Stats
from tcprobe.readers.xspace.wire import REF, STRING

LONG_TEXT: Final = 4096  # bytes; longer strings are compared one by one


class Index:
    """Positions of known ids: `rows` answers for a whole array at once."""

    __slots__ = ("_keys", "_order")

    def __init__(self, keys: Iterable[int]) -> None:
        found = np.fromiter(keys, dtype=np.int64)
        order = np.argsort(found, kind="stable")
        self._keys, self._order = found[order], np.append(order, -1).astype(np.int32)

    def rows(self, ids: Ints) -> NDArray[np.int32]:
        """Return the position of each id among the keys, -1 where it is none of them."""
        return self._order[positions_in(ids, self._keys)]


class Texts:
    """The strings of one plane's stats: names that stats refer to, and those that stand in the events.

    Attributes:
        names: by code; the first ones are the plane's stat_metadata.
    """

    __slots__ = ("_codes", "_file", "_refs", "names")

    def __init__(self, file: Bytes, stat_names: dict[int, str]) -> None:
        self._file = file
        self._refs = Index(stat_names)
        self.names = list(stat_names.values())
        self._codes: dict[bytes, int] = {}

    def codes(self, stats: Stats, rows: int) -> NDArray[np.int32]:
        """Return one code per event of a chunk of `rows` events; -1 where it has no such text."""
        out = np.full(rows, -1, np.int32)
        refs = np.flatnonzero(stats.kind == REF)
        out[stats.row[refs]] = self._refs.rows(stats.value[refs])
        texts = np.flatnonzero(stats.kind == STRING)
        if len(texts):
            out[stats.row[texts]] = self._intern(stats.value[texts], stats.size[texts])
        return out

    def _intern(self, at: Ints, size: Ints) -> NDArray[np.int32]:
        out = np.zeros(len(at), np.int32)
        order = np.argsort(size, kind="stable")
        lengths, begins = np.unique(size[order], return_index=True)
        for length, same in zip(lengths.tolist(), np.split(order, begins[1:]), strict=True):
            if 0 < length <= LONG_TEXT:
                rows = np.ndarray((self._file.size - length + 1,), f"S{length}", self._file.data, 0, (1,))[at[same]]
                _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
            else:
                first = inverse = np.arange(len(same))
            codes = [self._code(int(at[same[i]]), length) for i in first.tolist()]
            out[same] = np.array(codes, np.int32)[inverse]
        return out

    def _code(self, at: int, size: int) -> int:
        raw = bytes(self._file.data[at : at + size])
        code = self._codes.get(raw)
        if code is None:
            code = self._codes[raw] = len(self.names)
            self.names.append(raw.decode("utf-8", "replace"))
        return code

    def text(self, code: int) -> str | None:
        """Return the string of a code; None for -1."""
        return self.names[code] if code >= 0 else None
