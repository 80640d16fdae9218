"""Units of kernels: what repeats of the launches, and whether it is a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tcprobe.analysis.flow import analyse
from tcprobe.analysis.units import Repeats, find_repeats, find_units, unit_table
from tcprobe.flows.report import make_report
from tcprobe.readers.open import open_profile
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCH_CONFIGS, LAUNCHES, THREADS
from tests.analysis.builders import FP32, OTHER, TC, devices, marks, profile, table
from tests.analysis.ranges.made import told
from tests.support import ROOT

NSYS = ROOT.parent / "shared" / "samples" / "nsys"
FOLDER = ROOT.parent / "shared" / "samples" / "kineto"
ADAM = "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(int, AdamFunctor<float>)"
STEP = (TC, OTHER, FP32, OTHER, TC, TC)


def launched(*kernels: str, every: int = 10, device: int = 0, thread: int = 1, grids: tuple[int, ...] = ()) -> Table:
    """One launch after the other, each called `every` ns after the one before and 5 ns before it runs 4 ns."""
    made: list[dict[str, Any]] = [
        {
            "device": device, "stream": 7, "kernel": kernel, "op_id": -1, "config_id": grids[at] if grids else -1,
            "start_ns": every * at + 5, "duration_ns": 4, "launch_ns": every * at, "thread": thread,
        }
        for at, kernel in enumerate(kernels)
    ]  # fmt: skip
    return table(LAUNCHES, made)


def units(given: Profile) -> list[dict[str, Any]]:
    return list(unit_table(given, find_units(given)).rows())


def test_a_unit_has_its_length_its_repeats_and_its_times() -> None:
    (one,) = units(profile(launched(*STEP * 8)))
    assert one == {
        "device": 0, "process": None, "kernels": 6, "repeats": 8, "start_ns": 5, "end_ns": 479, "unit_ns": 60.0,
        "kernel_ns": 24.0, "share_pct": 100.0, "is_step": "unknown", "basis": None,
    }  # fmt: skip


def test_grids_tell_kernels_of_one_name_apart() -> None:
    configs = table(LAUNCH_CONFIGS, [{"grid": "1,1,1"}, {"grid": "2,1,1"}])
    assert not units(profile(launched(*[TC] * 60)))
    (one,) = units(profile(launched(*[TC] * 60, grids=(0, 1, 1) * 20), configs))
    assert (one["kernels"], one["repeats"]) == (3, 20)


def test_each_gpu_and_process_has_units_of_its_own() -> None:
    """Those of the other process are launched in between; the order of the rows does not matter."""
    one, other = launched(*STEP * 8), launched(*STEP[:5] * 8, thread=2)
    mixed = Table.from_rows(LAUNCHES, [row for each in (one, other) for row in each.rows()])
    threads = table(THREADS, [{"thread": 1, "process": 4}, {"thread": 2, "process": 5}])
    expected = [(4, 6, 8), (5, 5, 8)]
    for order in (np.arange(len(mixed)), np.random.default_rng(1).permutation(len(mixed))):
        made = units(profile(mixed.take(order), threads))
        assert [(row["process"], row["kernels"], row["repeats"]) for row in made] == expected
    gpus = Table.from_rows(LAUNCHES, [*one.rows(), *launched(*STEP[:5] * 9, device=1).rows()])
    assert [(row["device"], row["kernels"]) for row in units(profile(gpus))] == [(0, 6), (1, 5)]


def test_marks_with_one_unit_each_say_that_it_is_a_step_and_with_several_that_it_is_none() -> None:
    at = np.arange(6 * 12) // 6
    made = launched(*STEP * 12)
    (one,) = units(profile(made.with_columns(iteration=at.astype(float))))
    assert (one["is_step"], one["basis"]) == ("yes", "marks")
    (one,) = units(profile(made.with_columns(iteration=(at // 4).astype(float))))
    assert (one["is_step"], one["basis"]) == ("no", "marks")
    (one,) = units(profile(made.with_columns(iteration=np.arange(72.0) // 3)))
    assert (one["is_step"], one["basis"]) == ("no", "marks")


def test_of_marked_steps_three_are_enough() -> None:
    made = launched(*STEP * 3)
    (one,) = units(profile(made.with_columns(iteration=np.arange(18.0) // 6)))
    assert (one["repeats"], one["is_step"]) == (3, "yes")
    assert not units(profile(made))


def test_one_update_in_each_unit_says_that_it_is_a_step_and_marks_the_steps() -> None:
    """The capture begins within a step: steps end with their update."""
    kernels = (*STEP, ADAM, ADAM) * 9
    made = profile(launched(*kernels[3:]), devices({}), gpu_used=True)
    (one,) = units(made)
    assert (one["kernels"], one["is_step"], one["basis"]) == (8, "yes", "updates")
    analysed = analyse(made)
    assert analysed.require("step_marks").values("start_ns")[:3] == [50, 130, 210]
    assert analysed.metadata.window.first is not None and analysed.value("step_time_ns") == 80


def test_micro_batches_are_no_steps_and_their_update_makes_one_of_them() -> None:
    (one,) = units(profile(launched(*(STEP * 4 + (ADAM,)) * 8)))
    assert (one["kernels"], one["is_step"]) == (25, "yes")
    (one,) = units(profile(launched(*(STEP * 20 + (ADAM,)) * 2)))
    assert (one["kernels"], one["is_step"], one["basis"]) == (6, "unknown", None)
    (one,) = units(profile(launched(*STEP * 20, ADAM)))
    assert (one["kernels"], one["is_step"], one["basis"]) == (6, "no", "updates")


def test_two_updates_in_a_unit_that_lie_apart_say_nothing() -> None:
    (one,) = units(profile(launched(*(*STEP, ADAM, FP32, FP32, FP32, FP32, FP32, ADAM) * 9)))
    assert (one["kernels"], one["is_step"]) == (13, "unknown")


def test_units_mark_no_step_where_nothing_says_that_they_are_one() -> None:
    analysed = analyse(profile(launched(*STEP * 9), devices({}), gpu_used=True))
    assert len(analysed.require("units")) == 1 and not len(analysed.require("step_marks"))
    assert analysed.value("step_time_ns") is None and analysed.metadata.window.first is None
    own = analyse(profile(launched(*STEP * 9), marks([0, 270], 269), devices({}), gpu_used=True))
    assert own.require("step_marks").values("name") == ["train", "train"]
    none = analyse(profile(launched(*[TC] * 9), devices({}), gpu_used=True))
    assert none.table("units") is None and "repeats" in none.absent["units"]


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the samples of PyTorch's profiler are not here")
@pytest.mark.parametrize(
    ("name", "kernels", "steps"),
    [("a100_train_control", 1428, 6), ("v100_resnet50_fp32", 1462, 6), ("a100_nccl", 900, 3)],
)
def test_the_unit_of_a_recorded_training_is_the_step_that_its_profiler_marks(
    name: str, kernels: int, steps: int
) -> None:
    marked = told(open_profile(FOLDER / f"{name}.json.gz"))
    (one,) = units(marked)
    assert (one["kernels"], one["repeats"], one["is_step"], one["basis"]) == (kernels, steps, "yes", "marks")
    length = np.median(np.diff(marked.require("step_marks").numbers("start_ns")))
    assert one["unit_ns"] == pytest.approx(length, rel=0.02)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the samples of PyTorch's profiler are not here")
def test_recorded_updates_alone_mark_the_steps() -> None:
    marked = told(open_profile(FOLDER / "a100_train_control.json.gz"))
    whole = marked.require("ranges").take(np.zeros(0, np.int64))
    unmarked = open_profile(FOLDER / "a100_train_control.json.gz").with_tables(whole, devices({"device": 3}))
    analysed = analyse(unmarked)
    (one,) = analysed.require("units").rows()
    assert (one["kernels"], one["is_step"], one["basis"]) == (1428, "yes", "updates")
    length = np.median(np.diff(marked.require("step_marks").numbers("start_ns")))
    assert np.median(np.diff(analysed.require("step_marks").numbers("start_ns"))) == pytest.approx(length, rel=0.02)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the samples of PyTorch's profiler are not here")
@pytest.mark.parametrize(("name", "kernels", "is_step"), [("h100_qwen_bf16", 42, "no"), ("h100_owlv2_bf16", 866, "no")])
def test_units_within_a_recorded_step_are_none(name: str, kernels: int, is_step: str) -> None:
    (one,) = units(told(open_profile(FOLDER / f"{name}.json.gz")))
    assert (one["kernels"], one["is_step"], one["basis"]) == (kernels, is_step, "marks")


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the samples of PyTorch's profiler are not here")
@pytest.mark.parametrize("name", ["a100_train_control", "v100_resnet50_fp32", "a100_nccl"])
def test_one_recorded_step_repeats_nothing(name: str) -> None:
    marked = told(open_profile(FOLDER / f"{name}.json.gz"))
    launches = marked.require("launches")
    numbers = launches.numbers("iteration")
    for step in np.unique(numbers[~np.isnan(numbers)]):
        one = launches.take(numbers == step).with_columns(iteration=np.full(int((numbers == step).sum()), np.nan))
        assert not units(marked.with_tables(one))


@pytest.mark.skipif(not NSYS.is_dir(), reason="the samples of Nsight Systems are not here")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("titanrtx_fp16_inference_nsys2022", [(385, 59)]),
        ("h100x2_bf16_before_nsys2026", [(119, 16)] * 2),
        ("h100x2_bf16_after_nsys2026", [(119, 15)] * 2),
        ("h100x2_fp32_ffma_nsys2026", [(62, 24)] * 2),
        ("v100_mpi_rank1", []),
        ("rtx3090_tensorrt_nsys2023.1", []),
    ],
)
def test_units_of_recordings_without_steps_are_no_steps(name: str, expected: list[tuple[int, int]]) -> None:
    report = make_report(NSYS / f"{name}.sqlite")
    rows = list(report.require("units").rows())
    assert [(row["kernels"], row["repeats"]) for row in rows] == expected
    assert all(row["is_step"] == "unknown" for row in rows)
    assert report.value("step_time_ns") is None and not len(report.require("iterations"))


Codes = NDArray[np.int64]
RANDOM = np.random.default_rng(7)
BODY = RANDOM.integers(0, 30, 100)
LAYER = RANDOM.integers(30, 50, 30)
WHOLE_STEP = np.concatenate([np.tile(LAYER, 24), BODY[:50]])
"""24 layers that are alike, and what follows."""


def found(values: Codes, least: int = 5) -> list[tuple[int, int, int, int]]:
    """Return period, number of units, first index, index after the last of each."""
    return [(one.period, len(one.starts), int(one.starts[0]), one.end) for one in find_repeats(values, least)]


@pytest.mark.parametrize("times", [5, 6, 50])
def test_a_sequence_that_repeats_exactly_is_found_from_its_beginning(times: int) -> None:
    assert found(np.tile(BODY, times)) == [(100, times, 0, 100 * times)]


def test_the_least_number_of_repeats_decides() -> None:
    assert not found(np.tile(BODY, 4))
    assert found(np.tile(BODY, 4), 3) == [(100, 4, 0, 400)]
    assert found(np.tile([1, 2], 5)) == [(2, 5, 0, 10)] and not found(np.tile([1, 2], 4))


def test_a_step_comes_before_its_layers_and_one_step_alone_has_only_layers() -> None:
    assert found(np.tile(WHOLE_STEP, 10)) == [(770, 10, 0, 7700)]
    assert found(WHOLE_STEP) == [(30, 24, 0, 720)]


def test_what_comes_before_and_after_is_no_unit() -> None:
    noise = RANDOM.integers(100, 400, 300)
    ((period, units, first, end),) = found(np.concatenate([noise, np.tile(BODY, 12), noise[:100]]))
    assert (period, units) == (100, 12) and (first, end) == (300, 1500)


def test_units_with_another_value_more_or_less_interrupt_nothing_and_do_not_count() -> None:
    odd = np.insert(BODY, 60, 999)
    values = np.concatenate([odd if at in (7, 20) else BODY for at in range(40)])
    ((period, units, first, end),) = found(values)
    assert (period, first, end) == (100, 0, len(values)) and units == 38


def test_values_that_differ_from_unit_to_unit_are_tolerated_where_they_are_few() -> None:
    values = np.tile(BODY, 30).reshape(30, 100)
    values[:, [3, 40, 41, 80]] = 1000 + np.arange(120).reshape(30, 4)
    assert found(values.ravel()) == [(100, 30, 0, 3000)]
    values[:, ::2] = 2000 + np.arange(1500).reshape(30, 50)
    assert not found(values.ravel())


def test_two_phases_are_two_units_and_the_one_that_covers_more_comes_first() -> None:
    assert found(np.concatenate([np.tile(WHOLE_STEP, 10), np.tile(BODY, 80)])) == [
        (100, 80, 7700, 15700),
        (770, 10, 0, 7700),
    ]


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(5000, np.int64),
        np.random.default_rng(1).integers(0, 40, 20000), np.random.default_rng(2).integers(0, 2, 20000),
        np.random.default_rng(3).random(20000) < 0.02, np.random.default_rng(4).zipf(1.5, 20000) % 100,
        np.repeat(np.arange(10), 500), np.arange(3000), np.random.default_rng(5).permutation(np.tile(WHOLE_STEP, 10)),
    ],
    ids=["none", "one", "the same", "random", "coin", "rare", "skew", "blocks", "all differ", "shuffled"],
)  # fmt: skip
def test_nothing_is_found_where_nothing_repeats(values: Codes) -> None:
    assert not find_repeats(values.astype(np.int64))


def test_a_short_stretch_is_no_unit_of_the_sequence() -> None:
    assert not found(np.concatenate([np.arange(1000, 4000), np.tile(BODY, 6)]))


def test_the_numbers_themselves_do_not_matter() -> None:
    values = np.concatenate([RANDOM.integers(0, 9, 77), np.tile(WHOLE_STEP, 7)])
    renamed = np.random.default_rng(8).permutation(2000)[values] - 1000
    assert found(renamed) == found(values) and found(values)


def test_a_long_unit_among_many_is_found() -> None:
    unit = np.random.default_rng(9).integers(0, 300, 5000)
    one: Repeats
    (one,) = find_repeats(np.tile(unit, 40))
    assert one.period == 5000 and np.array_equal(one.starts, 5000 * np.arange(40))
