"""Number the names that events refer to, so that a million events cost arrays and never a million strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.readers.arrays import SPARSE, Bytes, Ints
from tcprobe.readers.xspace.events import REF, STRING, Stats

LONG_TEXT: Final = 4096  # bytes; longer strings are compared one by one


class Index:
    """Positions of known ids: `rows` answers for a whole array at once."""

    __slots__ = ("keys", "lut", "order")

    def __init__(self, keys: Iterable[int]) -> None:
        found = np.fromiter(keys, dtype=np.int64)
        self.order = np.argsort(found, kind="stable")
        self.keys = found[self.order]
        self.lut: NDArray[np.int32] | None = None
        if len(found) and self.keys[0] >= 0 and self.keys[-1] < max(SPARSE, 4 * len(found)):
            self.lut = np.full(int(self.keys[-1]) + 2, -1, np.int32)
            self.lut[found] = np.arange(len(found), dtype=np.int32)

    def rows(self, ids: Ints) -> NDArray[np.int32]:
        """Return the position of each id among the keys, -1 where it is none of them."""
        if not len(self.keys):
            return np.full(len(ids), -1, np.int32)
        if self.lut is not None:
            top = len(self.lut) - 1
            return self.lut[np.where((ids < 0) | (ids > top), top, ids)]
        place = np.minimum(np.searchsorted(self.keys, ids), len(self.keys) - 1)
        return np.where(self.keys[place] == ids, self.order[place], -1).astype(np.int32)


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
