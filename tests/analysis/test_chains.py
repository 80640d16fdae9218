"""Chains of made launches, worked out by hand: what breaks one, what it moves, what fusing it saves at most."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis.chains import build_chains
from tcprobe.analysis.flow import analyse
from tcprobe.analysis.kernels.launches import Launched, group_launches
from tcprobe.readers.open import open_profile
from tcprobe.schema.columns import Names, Table
from tcprobe.schema.tables import LAUNCHES, MEMORY_OPS, OP_DETAILS
from tests.analysis.builders import TC, devices, marks, profile, rows, table
from tests.support import examples, shared

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3> >(int)"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)"
COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
XLA = "loop_add_fusion"
LAYOUT = "void nchwToNhwcKernel<__half, __half, float, true, false, (cudnnKernelDataType_t)0>(int)"


def launched(*given: tuple[Any, ...]) -> Table:
    """Rows of (kernel, start in us, length in us[, more columns])."""
    return table(
        LAUNCHES,
        [
            {
                "device": 0, "stream": 7, "kernel": name, "start_ns": start * 1000, "duration_ns": length * 1000,
                "op_id": -1, "config_id": -1, **(more[0] if more else {}),
            }
            for name, start, length, *more in given
        ],
    )  # fmt: skip


def chains(*tables: Table) -> list[dict[str, Any]]:
    return rows(analyse(profile(devices({}), *tables)), "chains")


def test_kernels_that_follow_one_another_are_a_chain() -> None:
    found = chains(launched((TC, 0, 50), (ADD, 50, 10), (NORM, 60, 20), (TC, 80, 50), (ADD, 130, 12), (NORM, 142, 18)))
    (row,) = found
    assert (row["calls"], row["kernels"], row["launches"], row["sum_ns"]) == (2, 2, 4, 60_000)
    assert json.loads(row["kinds"]) == {"elementwise": 1, "normalisation": 1}
    assert (row["first_kernel"], row["last_kernel"]) == (ADD, NORM)
    assert row["share_pct"] == pytest.approx(100 * 60 / 160)
    assert row["at_most_ns"] == 60_000  # no shape is known: all of their time, and no saving beyond
    assert row["moved_bytes"] is row["bandwidth_pct"] is None


def test_sequences_are_told_apart_by_order_and_length() -> None:
    parts = [(ADD, NORM), (NORM, ADD), (ADD, NORM, ADD), (ADD, NORM)]
    ran = [kernel for part in parts for kernel in (*part, TC)]
    found = chains(launched(*((kernel, 10 * at, 10) for at, kernel in enumerate(ran))))
    assert sorted((row["kernels"], row["calls"], row["first_kernel"]) for row in found) == sorted(
        [(2, 2, ADD), (2, 1, NORM), (3, 1, ADD)]
    )


def test_one_chain_of_many_kernels_is_found_at_once() -> None:
    count = 200_000
    columns = {
        "device": np.zeros(count, np.int64), "stream": np.full(count, 7), "start_ns": 1000 * np.arange(count),
        "duration_ns": np.full(count, 900), "kernel": Names(np.arange(count) % 2, [ADD, NORM]),
        "op_id": np.full(count, -1), "config_id": np.full(count, -1),
    }  # fmt: skip
    run = profile(Table(LAUNCHES, columns))
    groups = group_launches(run)
    made = build_chains(run, Launched(groups, np.zeros(len(groups), np.int8)))
    assert made is not None
    assert made.values("kernels") == [count]


@pytest.mark.parametrize(
    "between",
    [
        pytest.param((TC, 10, 10), id="product"),
        pytest.param((LAYOUT, 10, 10), id="layout of cuDNN's"),
        pytest.param((XLA, 10, 10), id="compiled"),
        pytest.param((ADD, 10, 10, {"iteration": 1}), id="another step"),
        pytest.param(("void mystery_kernel(float*)", 10, 10), id="unknown"),
    ],
)
def test_another_kernel_between_breaks_a_chain(between: tuple[Any, ...]) -> None:
    first = (ADD, 0, 10, {"iteration": 0}), (NORM, 20, 10, {"iteration": 2})
    steps = marks([0, 10_000, 20_000], 10_000)
    assert chains(launched(first[0], between, first[1]), steps) == []


def test_a_kernel_of_another_stream_breaks_none() -> None:
    (row,) = chains(launched((ADD, 0, 10), (TC, 5, 20, {"stream": 8}), (ADD, 10, 10)))
    assert (row["kernels"], row["sum_ns"]) == (2, 20_000)


def test_a_copy_of_memory_on_the_stream_breaks_one_and_on_another_does_not() -> None:
    memory = {"device": 0, "start_ns": 10_000, "duration_ns": 1_000, "kind": "MemcpyH2D"}
    two = launched((ADD, 0, 10), (ADD, 12, 10))
    assert chains(two, table(MEMORY_OPS, [{**memory, "stream": 7}])) == []
    assert len(chains(two, table(MEMORY_OPS, [{**memory, "stream": 9}]))) == 1


def test_streams_that_are_not_known_have_no_chains() -> None:
    assert chains(launched((ADD, 0, 10, {"stream": -1}), (ADD, 12, 10, {"stream": -1}))) == []


def test_kernels_of_an_op_that_could_use_tensor_cores_are_of_no_chain() -> None:
    details = table(OP_DETAILS, [{"op": "conv", "op_type": "Conv2D"}, {"op": "relu", "op_type": "Relu"}])
    ops = [{"op_id": 0}, {"op_id": 1}, {"op_id": 1}]
    given = launched((ADD, 0, 10, ops[0]), (ADD, 10, 10, ops[1]), (NORM, 20, 10, ops[2]))
    (row,) = chains(given, details)
    assert (row["kernels"], row["op"]) == (2, "relu")


def big(op: str, kind: str, *shapes: list[int], output: list[int] | None = None, **more: Any) -> dict[str, Any]:
    out = None if output is None else json.dumps(output)
    return {
        "op": op,
        "op_type": kind,
        "dtype": "float32",
        "input_shapes": json.dumps(shapes),
        "output_shape": out,
        **more,
    }


MB64 = [4096, 4096]  # 64 MiB in float32: 67,108,864 bytes


def test_what_a_chain_moves_and_must_move_is_worked_out_by_its_shapes() -> None:
    # add reads two matrices and writes one (201,326,592 bytes), the norm reads and writes one (134,217,728).
    # One kernel would read the two and write one: what passes between them is 134,217,728.
    details = table(OP_DETAILS, [big("add", "Add", MB64, MB64), big("norm", "LayerNorm", MB64)])
    (row,) = chains(launched((ADD, 0, 300, {"op_id": 0}), (NORM, 300, 300, {"op_id": 1})), details)
    moved, again = 5 * 67_108_864, 2 * 67_108_864
    assert (row["moved_bytes"], row["again_bytes"]) == (moved, again)
    assert row["achieved_tb_per_s"] == pytest.approx(moved / 600e-6 / 1e12)  # 0.559 TB/s
    assert row["bandwidth_pct"] == pytest.approx(100 * moved / 600e-6 / 900e9)  # of a V100's 900 GB/s: 62.1 %
    # of the 134,217,728 bytes read and 67,108,864 written up to 6 MiB each may stay in the L2 cache
    floor_ns = (2 * 67_108_864 - 6 * 2**20 + 67_108_864 - 6 * 2**20) / 900
    assert row["at_most_ns"] == pytest.approx(600_000 - floor_ns)  # 390,284 of 600,000 ns


def test_operands_that_fit_in_the_cache_need_not_come_from_memory() -> None:
    details = table(OP_DETAILS, [big("add", "Add", [1024], [1024]), big("norm", "LayerNorm", [1024])])
    (row,) = chains(launched((ADD, 0, 3, {"op_id": 0}), (NORM, 3, 3, {"op_id": 1})), details)
    assert (row["moved_bytes"], row["at_most_ns"]) == (5 * 4096, 6000)


def test_faster_than_the_memory_is_no_share_of_its_bandwidth() -> None:
    details = table(OP_DETAILS, [big("add", "Add", MB64, MB64), big("norm", "LayerNorm", MB64)])
    (row,) = chains(launched((ADD, 0, 30, {"op_id": 0}), (NORM, 30, 30, {"op_id": 1})), details)
    assert row["bandwidth_pct"] is None
    assert row["at_most_ns"] == 0


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(big("cast", "Cast", MB64), id="a cast writes another type"),
        pytest.param(big("less", "Less", MB64, MB64), id="a comparison writes bool"),
        pytest.param(big("slice", "StridedSlice", MB64), id="a slice reads a part"),
        pytest.param({**big("add", "Add", MB64), "dtype": "float32+float16"}, id="two types"),
        pytest.param({**big("add", "Add", MB64), "input_shapes": "[[null, 4096]]"}, id="an unknown size"),
        pytest.param({"op": "add", "op_type": "Add", "dtype": "float32"}, id="no shape"),
    ],
)
def test_of_unknown_shapes_or_types_no_bytes_are_told(second: dict[str, Any]) -> None:
    details = table(OP_DETAILS, [big("add0", "Add", MB64, MB64), second])
    (row,) = chains(launched((ADD, 0, 30, {"op_id": 0}), (ADD, 30, 30, {"op_id": 1})), details)
    assert row["moved_bytes"] is row["again_bytes"] is row["bandwidth_pct"] is None
    assert row["at_most_ns"] == 60_000


def test_what_a_compiler_made_promises_nothing() -> None:
    hlo = {"hlo_op": "loop_add_fusion", "output": MB64, "output_dtype": "bfloat16"}
    details = table(OP_DETAILS, [big("a", "fusion", MB64, **hlo), big("b", "fusion", MB64, **hlo)])
    (row,) = chains(launched((XLA, 0, 400, {"op_id": 0}), (XLA, 400, 400, {"op_id": 1})), details)
    assert row["compiled"] is True
    assert row["at_most_ns"] is None
    assert row["moved_bytes"] == 2 * (67_108_864 + 67_108_864 / 2)  # reads float32, writes bfloat16


ONE = st.tuples(
    st.sampled_from([ADD, NORM, COPY, TC, XLA]), st.integers(0, 500), st.integers(1, 50), st.sampled_from([7, 8, -1])
)


@settings(max_examples=examples(60))
@given(st.lists(ONE, max_size=25))
def test_no_kernel_counts_twice_and_no_chain_saves_more_than_it_takes(given: list[tuple[str, int, int, int]]) -> None:
    launches = launched(*((name, at, length, {"stream": stream}) for name, at, length, stream in given))
    if not given:
        return
    found = chains(launches)
    fusible = sum(length for name, _, length, stream in given if name != TC and stream >= 0)
    assert sum(row["sum_ns"] for row in found) <= fusible * 1000
    for row in found:
        assert row["launches"] == row["kernels"] * row["calls"]
        assert row["kernels"] == sum(json.loads(row["kinds"]).values()) >= 2
        assert row["at_most_ns"] is None or 0 <= row["at_most_ns"] <= row["sum_ns"]


def test_a_language_model_under_pytorch() -> None:
    run = analyse(open_profile(shared("samples/nsys/h100x2_bf16_before_nsys2026.sqlite")))
    found = rows(run, "chains")
    # of 3,539 such kernels, 180 ms on both GPUs, 2,587 follow one another
    assert sum(row["launches"] for row in found) == 2587
    assert sum(row["sum_ns"] for row in found) == pytest.approx(167.06e6, rel=1e-3)
    first = run.advice[0]
    assert first.code == "TC318"
    assert first.concern.at_most_ns == pytest.approx(84.4e6, rel=2e-2)
