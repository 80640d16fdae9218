"""Read gradients.json: what float16 would make of the gradients that a run counted (`--numerics`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from tcprobe.errors import InputError, MissingInput
from tcprobe.foreign import read as read_bytes
from tcprobe.jsonfile import MOST_BYTES, Text, read_object, records
from tcprobe.probe.constants import EXPONENTS
from tcprobe.readers.run_folder.steps import TableAndNotes, damaged, home
from tcprobe.schema.columns import Table
from tcprobe.schema.tables import GRADIENTS

_Count = Annotated[float, Meta(ge=0, lt=2**53)]
_COUNTED: Final = ("updates", "size", "values", "zeros", "not_finite", "gone", "subnormal", "infinite")


class _Gradient(Struct):
    """A weight, with sums over its updates; see `tcprobe.probe.tensorflow.gradients`."""

    name: Text
    updates: Annotated[float, Meta(ge=1, lt=2**53)]
    size: _Count
    scale: Annotated[float, Meta(gt=0)]
    values: _Count
    zeros: _Count
    not_finite: _Count
    gone: _Count
    subnormal: _Count
    infinite: _Count
    larger: list[_Count]
    layer: Text | None = None

    def is_whole(self, exponents: list[int]) -> bool:
        """Return whether its counts can be true: the kinds of its values are no more than these, nor those beyond."""
        kinds = self.zeros + self.not_finite + self.gone + self.subnormal + self.infinite
        beyond = [self.values - self.zeros - self.not_finite, *self.larger]  # which falls, from exponent to exponent
        of_all = kinds <= self.values <= self.size and beyond == sorted(beyond, reverse=True)
        return of_all and len(self.larger) == len(exponents)


def read_gradients(path: Path) -> TableAndNotes:
    """Return `GRADIENTS`; None where nothing was counted. A record that is damaged is skipped and counted."""
    try:
        read_bytes(path, MOST_BYTES, home(path))
    except MissingInput:
        return None, ()
    except InputError as error:
        return None, (damaged(path, error.found, "nothing of it is used"),)
    data = read_object(path, home(path))
    exponents: Any = data.get("exponents")
    if not isinstance(exponents, list) or any(type(one) is not int for one in exponents):
        exponents = []
    exponents = exponents if exponents == sorted({*exponents, *EXPONENTS}) else []
    given: Any = data.get("gradients")
    rows = [one for one in records(_Gradient, given) if exponents and one.is_whole(exponents)]
    lost = len(given) - len(rows) if isinstance(given, list) else 1
    notes = (damaged(path, f"{lost} of its records are damaged", "skipped"),) if lost else ()
    rows = [row for row in rows if row.values]  # the others are of empty gradients
    return (_table(rows, exponents) if rows else None), notes


def _table(rows: list[_Gradient], exponents: list[int]) -> Table:
    columns: dict[str, list[Any]] = {name: [int(getattr(row, name)) for row in rows] for name in _COUNTED}
    columns |= {name: [getattr(row, name) for row in rows] for name in ("layer", "scale")}
    columns |= {
        "weight": [row.name for row in rows],
        "zero_pct": [100.0 * (row.zeros + row.gone) / row.values for row in rows],
        "subnormal_pct": [100.0 * row.subnormal / row.values for row in rows],
        "infinite_pct": [100.0 * (row.not_finite + row.infinite) / row.values for row in rows],
        "larger": [json.dumps({str(e): int(n) for e, n in zip(exponents, row.larger, strict=True)}) for row in rows],
    }
    return Table(GRADIENTS, columns)
