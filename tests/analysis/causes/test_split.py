"""Time in which several kernels run is split equally, and the parts of a window add up to it exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.analysis.causes.bar import DividedTime, divide, whole_ns
from tcprobe.flows.report import make_report
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tests.fixtures.gpu_run.make import RUN
from tests.support import shared

Interval = tuple[int, int]


def divided(window: Interval, kernels: list[Interval], copies: list[Interval] | None = None) -> DividedTime:
    def columns(found: list[Interval]) -> tuple[Any, Any]:
        return np.array([s for s, _ in found], np.int64), np.array([d for _, d in found], np.int64)

    return divide(window, columns(kernels), columns(copies or []))


def test_kernels_that_run_at_once_share() -> None:
    # 0-100 alone, 100-200 with the second, 200-300 the second alone; nothing to 400
    found = divided((0, 400), [(0, 200), (100, 200)])
    assert found.parts_ns.tolist() == [150.0, 150.0]
    assert (found.busy_ns, found.copy_ns, found.idle_ns) == (300, 0, 100)


def test_three_at_once_have_a_third_each() -> None:
    found = divided((0, 30), [(0, 30), (0, 30), (0, 30)])
    assert found.parts_ns.tolist() == pytest.approx([10.0, 10.0, 10.0])


def test_copies_count_where_no_kernel_runs() -> None:
    found = divided((0, 100), [(20, 20)], [(30, 30), (50, 20)])
    assert (found.busy_ns, found.copy_ns, found.idle_ns) == (20, 30, 50)


def test_what_lies_outside_the_window_does_not_count() -> None:
    found = divided((50, 100), [(0, 60), (90, 100), (200, 10)])
    assert found.parts_ns.tolist() == [10.0, 10.0, 0.0]
    assert (found.busy_ns, found.idle_ns) == (20, 30)


INTERVALS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 80)), max_size=12)


@given(kernels=INTERVALS, copies=INTERVALS, order=st.randoms())
def test_it_is_what_a_sweep_over_every_ns_gives(kernels: list[Interval], copies: list[Interval], order: Any) -> None:
    window = (40, 260)
    parts, busy, copied = [0.0] * len(kernels), 0, 0
    for ns in range(*window):
        running = [n for n, (start, length) in enumerate(kernels) if start <= ns < start + length]
        for n in running:
            parts[n] += 1 / len(running)
        busy += bool(running)
        copied += not running and any(start <= ns < start + length for start, length in copies)
    found = divided(window, kernels, copies)
    assert found.parts_ns.tolist() == pytest.approx(parts)
    assert (found.busy_ns, found.copy_ns, found.idle_ns) == (busy, copied, 220 - busy - copied)
    shuffled = list(range(len(kernels)))
    order.shuffle(shuffled)
    again = divided(window, [kernels[n] for n in shuffled], copies)
    assert again.parts_ns.tolist() == pytest.approx([found.parts_ns[n] for n in shuffled])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_whole_parts_add_up(parts: list[float]) -> None:
    total = round(sum(parts))
    found = whole_ns(np.array(parts), total)
    assert found.sum() == total
    assert (found >= 0).all()


SAMPLES = (
    "samples/nsys/h100x2_bf16_before_nsys2026.sqlite", "samples/nsys/titanrtx_fp16_inference_nsys2022.sqlite",
    "samples/xplane/tf24_v100_alexnet_fp32.xplane.pb", "samples/xplane/tf22_8xv100_bert_step0.xplane.pb",
)  # fmt: skip


def adds_up(profile: Profile) -> None:
    window = profile.metadata.window.length_ns
    causes, kernels = profile.require("causes"), profile.require("kernels")
    for device in {row["device"] for row in causes.rows()}:
        assert sum(int(row["split_ns"] or 0) for row in causes.rows() if row["device"] == device) == window
    assert None not in kernels.values("cause")
    spent = sum(int(row["sum_ns"] or 0) for row in causes.rows() if row["launches"] is not None)
    assert spent == int(kernels.numbers("sum_ns").sum())
    for row in profile.require("ops").rows():
        assert int(row["split_ns"] or 0) <= int(row["sum_ns"] or 0) + 1 or profile.metadata.window.first is not None


def test_the_causes_of_a_run_add_up_to_its_window() -> None:
    adds_up(make_report(RUN))


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_causes_of_a_sample_add_up_to_its_window(sample: str) -> None:
    adds_up(make_report(shared(sample)))


def test_the_order_of_rows_does_not_matter() -> None:
    from tcprobe.readers.open import open_profile

    read = open_profile(RUN)
    backwards = {
        name: table.take(np.arange(len(table))[::-1])
        if name in ("launches", "memory_ops", "steps", "metrics")
        else table
        for name, table in read.tables.items()
    }
    turned = analyse(Profile(read.metadata, backwards, read.absent))
    assert rows_of(analyse(read).require("causes")) == rows_of(turned.require("causes"))


def rows_of(table: Table) -> list[dict[str, Any]]:
    return list(table.rows())
