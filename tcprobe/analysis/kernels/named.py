"""Take a user's word for kernels whose names do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from tcprobe.analysis.kernels.rule import NameParts
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import NamedKernel


def with_words(kernels: Table, words: Sequence[NamedKernel]) -> Table:
    """Return the kernels table with what the user says of kernels of unknown class or kind; the first word counts."""
    if not words:
        return kernels
    of_name = {name: _word(name, words) for name in kernels.names("kernel").names}
    columns = {name: kernels.values(name) for name in ("kernel", "uses_tc", "basis", "evidence", "kind")}
    for row, name in enumerate(columns["kernel"]):
        word = of_name[str(name)]
        if word is None:
            continue
        if columns["uses_tc"][row] == "unknown" and word.uses_tc != "unknown":
            columns["uses_tc"][row], columns["basis"][row] = word.uses_tc, "user"
            columns["evidence"][row] = f"{word.why} ({word.pattern} in pyproject.toml)"
        if columns["kind"][row] == "unknown":
            columns["kind"][row] = word.kind
    return kernels.with_columns(**columns)


def _word(name: str, words: Sequence[NamedKernel]) -> NamedKernel | None:
    function = NameParts.of(name).texts["function"]
    return next((one for one in words if any(fnmatchcase(text, one.pattern) for text in (name, function))), None)
