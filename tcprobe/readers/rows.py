"""Rows of a CSV table as columns of texts and numbers, by pandas."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from tcprobe.errors import WrongFormat
from tcprobe.readers.limits import NAMELESS
from tcprobe.schema.columns import FloatArray, Names

if TYPE_CHECKING:
    import pandas as pd

BEYOND: Final = 1e30  # no counter reaches it, nor in a base unit the largest float


def columns_of(
    path: Path, rows: Sequence[str], header: Sequence[str], wanted: Sequence[str], separator: str = ","
) -> dict[str, pd.Series[str]]:
    """Return columns of rows as texts; of two with one name the first.

    Args:
        path: the file, for the error.
        rows: lines without their ends; a quoted cell may hold line ends.
        header: name of each cell.
        wanted: names of the columns to return, each in `header`; a cell that a short row lacks is NaN.
        separator: between cells.

    Raises:
        WrongFormat: a quote is left open. More cells than the header has are passed over.
    """
    import pandas as pd

    at = {header.index(name): name for name in wanted}
    text, width = StringIO("\n".join(rows)), range(len(header))
    try:
        found = pd.read_csv(text, sep=separator, header=None, names=width, usecols=list(at), dtype=str, na_filter=False)
    except (ValueError, pd.errors.ParserError) as error:
        raise WrongFormat(path, f"is no CSV table: {error}", "export it again") from None
    return {name: found[position] for position, name in at.items()}


def numbers_of(texts: pd.Series[str]) -> FloatArray:
    """Return texts as numbers; NaN where one is none, or is none that was counted."""
    import pandas as pd

    values = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64, copy=True)
    values[~(np.abs(values) < BEYOND)] = np.nan
    return values


def names_of(texts: pd.Series[str]) -> Names:
    """Return texts by id; blank ones NA."""
    import pandas as pd

    codes, distinct = pd.factorize(texts)
    again = Names.of([text.strip() or None for text in distinct])
    return again.take(codes)


def kernels_of(names: Names) -> Names:
    """Return names of kernels, of which none is NA."""
    return Names(np.where(names.ids < 0, len(names.names), names.ids), [*names.names, NAMELESS])
