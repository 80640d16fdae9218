"""The tables as CSV."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.report.csv import write_table
from tcprobe.report.run import tables
from tcprobe.schema.columns import Table
from tcprobe.schema.tables import DERIVED, KERNELS
from tests.report.builders import PROFILES, gpu_profile, rendered, run, summary_only, table


def text(shown: Table, top: int | None = None) -> str:
    out = io.StringIO()
    write_table(tables.data_table(shown, top), out)
    return out.getvalue()


@pytest.mark.parametrize("name", PROFILES)
def test_pandas_reads_every_table_back_as_it_was(name: str) -> None:
    import pandas as pd

    for shown in tables.written(PROFILES[name]()):
        read = pd.read_csv(io.StringIO(text(shown)), dtype=tables.pandas_dtypes(shown.spec.name))
        pd.testing.assert_frame_equal(read, shown.to_pandas())


def test_pandas_takes_numbers_for_numbers_without_help() -> None:
    import pandas as pd

    read = pd.read_csv(io.StringIO(text(gpu_profile().require("kernels"))))
    assert read["sum_ns"].dtype == np.int64
    assert read["occupancy_pct"].dtype == np.float64
    assert read["kernel"].iloc[3] == 'odd "kernel",\nwith\ttwo lines'
    assert pd.read_csv(io.StringIO(text(gpu_profile().require("iterations"))))["in_window"].dtype == np.bool_


@pytest.mark.parametrize("spec", DERIVED, ids=lambda s: s.name)
def test_the_header_is_the_contract_even_without_rows(spec: object) -> None:
    name = spec.name  # type: ignore[attr-defined]
    header = next(csv.reader(io.StringIO(text(gpu_profile().require(name)))))
    assert header == [c.name for c in spec.columns]  # type: ignore[attr-defined]


def test_na_is_empty_and_zero_is_zero() -> None:
    rows = list(csv.DictReader(io.StringIO(text(gpu_profile().require("ops")))))
    assert (rows[0]["tc_ns"], rows[0]["host_ns"], rows[2]["flops"]) == ("0", "", "")


names = st.text(min_size=1).filter(lambda s: "\x00" not in s)


@given(st.lists(names, min_size=1, max_size=5))
def test_any_name_survives(kernels: list[str]) -> None:
    shown = Table(KERNELS, {"kernel": kernels, "uses_tc": ["no"] * len(kernels), "evidence": ["e"] * len(kernels)})
    rows = list(csv.DictReader(io.StringIO(text(shown), newline="")))
    assert [row["kernel"] for row in rows] == kernels


@given(st.lists(st.integers(0, 2**53), min_size=1))
def test_times_are_whole_and_exact(times: list[int]) -> None:
    n = len(times)
    shown = Table(KERNELS, {"kernel": ["k"] * n, "uses_tc": ["no"] * n, "evidence": ["e"] * n, "sum_ns": times})
    assert [row["sum_ns"] for row in csv.DictReader(io.StringIO(text(shown)))] == [str(t) for t in times]


def test_top_limits_rows() -> None:
    assert text(gpu_profile().require("kernels"), top=1).count("void cudnn") == 1
    assert len(list(csv.reader(io.StringIO(text(gpu_profile().require("kernels"), top=1))))) == 2


def test_the_table_is_the_one_asked_for() -> None:
    assert rendered("csv", run(gpu_profile(), by=("layer",))).startswith("layer,layer_class,")
    assert rendered("csv", run(gpu_profile())) == text(gpu_profile().require("kernels"))


def test_one_csv_holds_one_table() -> None:
    with pytest.raises(UsageError, match="one CSV holds one table"):
        rendered("csv", run(gpu_profile(), by=("op", "layer")))


def test_an_absent_table_is_not_written_as_an_empty_one() -> None:
    assert [t.spec.name for t in tables.written(summary_only())] == ["summary", "reported"]
    assert [t.spec.name for t in tables.written(summary_only(), ("kernel",))] == ["summary"]


def test_of_the_tables_there_seven_are_always_written_the_rest_where_they_have_rows() -> None:
    emptied = gpu_profile().with_tables(table("kernels"), table("metrics"), table("host_ops"))
    written = [t.spec.name for t in tables.written(emptied)]
    assert written == ["summary", "kernels", "ops", "layers", "iterations", "devices", "bad_sizes", "advice"]
    assert "metrics" in [t.spec.name for t in tables.written(gpu_profile())]


def test_a_bool_is_true_or_false() -> None:
    step = {"iteration": 0, "in_window": False, "steps": 1}
    assert text(table("iterations", step)).splitlines()[1].startswith("0,false,")
