"""Tables have the columns that README.md describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.gpu import tables

README = Path(tables.__file__).with_name("README.md").read_text(encoding="utf-8")
OURS = [(name, kind) for name, kinds in tables.KINDS.items() for kind in kinds if name != "raw.csv.gz"]


@pytest.mark.parametrize(("name", "columns"), OURS)
def test_the_readme_describes_each_column_in_its_order(name: str, columns: tables.Columns) -> None:
    described = re.findall(rf"(?ms)^`{re.escape(name)}`[^:]*:.*?(?=\n\n|\Z)", README)
    assert any(re.search(r"`.*`".join(columns), f"`{text}", re.DOTALL) for text in described)


def test_a_column_that_a_table_lacks_is_told() -> None:
    assert tables.missing("kernels.csv.gz", tables.TALLIES) == set()
    assert tables.missing("kernels.csv.gz", [*tables.LAUNCHES, "sm__x.sum"]) == set()
    assert tables.missing("pairs.csv.gz", set(tables.PAIRS) - {"ratio"}) == {"ratio"}
    assert tables.missing("nowhere.csv.gz", ()) is None
