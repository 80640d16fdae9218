"""What readers of CSV have in common: tables among other lines, and kernels summed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tcprobe.errors import WrongFormat
from tcprobe.readers.rows import Header, cells_of, costliest, gpu_row, summed, tables_in

TEXT = """\
$ tool
A,B
1,"x
y"
2,z
the program says something
3,w
end
4,lost
A,C
5,v
"""


def header(line: str) -> Header | None:
    return Header(names=tuple(line.strip().split(",")), row=re.compile(r"\d")) if line.startswith("A,") else None


def test_tables_among_other_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    tables = list(tables_in(path, header, lambda line: line.startswith("end"), "again"))
    assert [(found.names, lines) for found, lines, _ in tables] == [(("A", "B"), [3, 5, 7]), (("A", "C"), [11])]
    found, lines, rows = tables[0]
    assert cells_of(path, found, lines, rows, "again") == [["1", "x\ny"], ["2", "z"], ["3", "w"]]
    with pytest.raises(WrongFormat, match="the row in line 5 has 1 cells where its header has 2"):
        cells_of(path, found, lines, [rows[0], "2\n", rows[2]], "again")
    path.write_text(TEXT.replace('y"', "y"))
    with pytest.raises(WrongFormat, match="ends within a quoted cell of the row that begins in line 3"):
        list(tables_in(path, header, lambda line: line.startswith("end"), "again"))


def test_kernels_are_summed_and_an_unknown_time_makes_theirs_unknown() -> None:
    group, spent = np.array([0, 1, 0, 1, 2]), np.array([3.0, 5.0, 4.0, np.nan, 7.0])
    columns = summed(group, 3, spent)
    assert {name: [None if v != v else v for v in of.tolist()] for name, of in columns.items()} == {
        "calls": [2, 2, 1],
        "sum_ns": [7, None, 7],
        "min_ns": [3, None, 7],
        "max_ns": [4, None, 7],
    }
    weighed = summed(group[:1], 1, np.array([90.0]), calls=np.array([3.0]), each=([20.0], [40.0]))  # type: ignore[arg-type]
    assert [of.tolist() for of in weighed.values()] == [[3], [90], [20], [40]]


def test_of_several_rows_that_cost_as_much_the_last_counts() -> None:
    assert costliest(np.array([0, 1, 0, 0]), 2, np.array([5, 1, 5, 4])).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("name", "vendor", "tensor_cores"),
    [("AMD Instinct MI300X", "AMD", "no"), ("NVIDIA H100", "Nvidia", "unknown"), (None, "Nvidia", "unknown")],
)
def test_a_gpu_of_another_vendor_is_known_by_its_name(name: str | None, vendor: str, tensor_cores: str) -> None:
    row = gpu_row(0, name, ran=True)
    assert (row["vendor"], row["tensor_cores"]) == (vendor, tensor_cores)
