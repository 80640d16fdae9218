"""The tables of a report: which rows, in which order, and what is worked out for show."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from tcprobe import formatting
from tcprobe.report.run import tables, views
from tcprobe.schema.profile import Metadata, Profile, Window
from tcprobe.schema.waits import StepLength, Waiting
from tests.report.builders import MS, cpu_profile, gpu_profile, summary_only, table


def shown(by: str, top: int | None = 10) -> list[dict[str, str]]:
    found = tables.view_section(gpu_profile(), views.BY[by], top)
    assert found is not None
    headings = [h.text for h in found.headings]
    return [dict(zip(headings, map(str, row), strict=True)) for row in found.cells]


def test_kernels_have_share_mean_and_whether_their_op_is_capable() -> None:
    first, second = shown("kernel", top=2)
    assert (first["time"], first["share"], first["mean"], first["op capable"]) == (
        "42.0 ms",
        "42.0 %",
        "21.0 ms",
        "yes",
    )
    assert (second["uses TC"], second["registers"], second["dynamic shared"]) == ("yes", "230", "80.0 KiB")


def test_shares_of_ops_are_of_all_kernel_time() -> None:
    assert [row["share"] for row in shown("op")] == ["42.0 %", "30.0 %", "20.0 %"]


def test_a_share_with_unknown_kernels_is_a_range() -> None:
    assert shown("iteration")[2]["TC share"] == "30.0-38.0 %"
    assert shown("device")[0]["TC share"] == "30.0-38.0 %"


def test_a_column_without_values_is_not_shown() -> None:
    assert "peak memory" not in shown("device")[0]


def test_bars_are_to_the_scale_of_the_longest_counted_step() -> None:
    bars = [row["# TC, = not TC, ? unknown"] for row in shown("iteration")]
    # 50 ms is 24 wide: 15 ms on TC is 7.2, 4 ms unknown is 1.92. The warm-up step of 200 ms is cut.
    assert bars[2] == "#" * 7 + "=" * 15 + "?" * 2
    assert bars[0] == "#" * 5 + "=" * 19 + "+"


def test_of_many_iterations_those_around_the_start_of_the_window_are_shown() -> None:
    steps = [{"iteration": i, "in_window": i >= 15, "steps": 1, "sum_ns": MS} for i in range(57)]
    profile = gpu_profile().with_tables(table("iterations", *steps))
    found = tables.view_section(profile, views.ITERATION_VIEW, 5)
    assert found is not None
    assert [str(row[0]) for row in found.cells] == ["13", "14", "15", "16", "17"]
    assert found.title == "Iterations (5 of 57)"


def test_rows_of_unknown_time_stand_last() -> None:
    rows = [{"kernel": k, "uses_tc": "no", "evidence": "", "sum_ns": ns} for k, ns in (("a", None), ("b", 1), ("c", 2))]
    found = tables.view_section(gpu_profile().with_tables(table("kernels", *rows)), views.KERNEL_VIEW, 10)
    assert found is not None
    assert [str(row[0]) for row in found.cells] == ["c", "b", "a"]


def test_pruned_ops_are_not_shown() -> None:
    found = tables.view_section(cpu_profile(), views.GEMM_VIEW, 10)
    assert found is not None
    assert "dead/MatMul" not in {str(cell) for row in found.cells for cell in row}
    assert found.title == "Matrix multiplications of a step (2)"


def test_only_pruned_ops_are_no_section() -> None:
    dead = {"op": "dead", "executes": "no", "flops": 1}
    assert tables.view_section(cpu_profile().with_tables(table("gemms", dead)), views.GEMM_VIEW, 10) is None


def test_what_is_left_out_is_counted() -> None:
    found = tables.view_section(gpu_profile(), views.KERNEL_VIEW, 1)
    assert found is not None
    assert found.title == "Kernels (top 1 of 4; kernel time: sum of 2 steps)"
    assert found.notes == ("(3 more; --top 0 shows all)",)


@pytest.mark.parametrize(("window", "said"), [(Window(2, 2), "; kernel time of 1 step"), (Window(), "")])
def test_titles_say_over_how_many_steps_times_are_sums(window: Window, said: str) -> None:
    steps = [{"iteration": n, "in_window": n == 2, "steps": 1} for n in (1, 2)]
    profile = gpu_profile(window=window).with_tables(table("iterations", *steps))
    found = tables.view_section(profile, views.KERNEL_VIEW, 10)
    assert found is not None
    assert found.title == f"Kernels (4{said})"


@pytest.mark.parametrize("by", views.BY)
def test_a_table_that_is_not_there_is_no_section(by: str) -> None:
    assert tables.view_section(summary_only(), views.BY[by], 10) is None


def test_many_kernels_are_sorted_without_making_rows_of_them() -> None:
    rng = np.random.default_rng(1)
    times = rng.integers(0, 10**6, 50_000)
    names = [f"k{i}" for i in range(50_000)]
    from tcprobe.schema.columns import Table
    from tcprobe.schema.tables import KERNELS

    many = Table(
        KERNELS, {"kernel": names, "uses_tc": ["no"] * 50_000, "evidence": ["x"] * 50_000, "sum_ns": times * MS}
    )
    found = tables.view_section(gpu_profile().with_tables(many), views.KERNEL_VIEW, 3)
    assert found is not None
    assert str(found.cells[0][0]) == f"k{int(np.argmax(times))}"


@pytest.mark.parametrize(
    ("layer", "source", "shown"),
    [(None, None, "train.py:12"), ("a", "model.py:3", "model.py:3"), ("a", None, formatting.NA)],
)
def test_what_belongs_to_no_layer_shows_where_it_was_called(layer: str | None, source: str | None, shown: str) -> None:
    row = {"layer": layer, "source": source, "called_from": "train.py:12"}
    (field,) = (field for field in views.OP_VIEW.fields if field.head.text == "source")
    assert field.show(row).text == shown


@pytest.mark.parametrize(
    ("length", "heading", "share"),
    [("capture", "time", "of the time captured"), ("between steps", "a step", "of the step")],
)
def test_times_of_a_capture_are_of_no_step(length: StepLength, heading: str, share: str) -> None:
    rows = table("causes", {"device": 0, "group": "never", "cause": "type", "split_ns": 5, "step_ns": 5.0})
    advice = table("advice", {"rank": 1, "code": "TC301", "name": "waiting-gpu", "step_pct": 20.0, "share_pct": 20.0})
    profile = replace(Profile(Metadata("nsys")), waiting=Waiting(10.0, length, 8.0, 2.0)).with_tables(rows, advice)
    for by, (either, other), expected in (
        ("cause", ("time", "a step"), heading),
        ("advice", ("of the time captured", "of the step"), share),
    ):
        found = tables.view_section(profile, views.BY[by], None)
        assert found is not None
        assert {either, other} & {head.text for head in found.headings} == {expected}
