"""What the rules read of a profile: tiny and costly kernels, layouts, loss scaling, warm-up, key nodes, memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.analysis.causes.facts import (
    epoch_steps,
    framework,
    layout_work,
    memory_use,
    small_ns,
    tf32_off,
    tiny_kernels,
    top_kernel,
    warm_up,
)
from tcprobe.readers.open import open_profile
from tcprobe.rules.run.base import MemoryUse, TinyKernels, WarmUp
from tcprobe.schema.advice import Where
from tcprobe.schema.columns import Value
from tcprobe.schema.profile import Metadata, Note, Policy, Profile
from tests.report.builders import table
from tests.support import examples, shared

US = 1_000
MS = 1_000_000
SCOPE = "StatefulPartitionedCall/"


def kernel(name: str, us: float, **more: Value) -> dict[str, Value]:
    return {"kernel": name, "calls": 1, "sum_ns": round(us * US), "uses_tc": "no", "evidence": "its name", **more}


def of(*kernels: dict[str, Value], ops: tuple[dict[str, Value], ...] = (), **metadata: Any) -> Profile:
    made = Profile(Metadata(**{"format": "xplane", **metadata}))
    return made.with_tables(table("kernels", *kernels), table("ops", *ops))


def op(name: str, op_type: str, us: float = 0, **more: Value) -> dict[str, Value]:
    return {"op": name, "op_type": op_type, "tc_capable": "no", "sum_ns": round(us * US), **more}


def test_launches_shorter_than_10_us_are_tiny() -> None:
    rows = [
        {"device": 0, "stream": 0, "start_ns": n, "duration_ns": us * US, "kernel": "k", "op_id": -1, "config_id": -1}
        for n, us in enumerate((2, 9, 10, 50))
    ]
    assert tiny_kernels(of().with_tables(table("launches", *rows))) == TinyKernels(4, 2, 11.0 * US)
    graphs = [{**row, "cuda_graph": 1} for row in rows]
    found = tiny_kernels(of().with_tables(table("launches", *graphs)))
    assert found is not None
    assert found.graphs is True


def test_of_sums_the_mean_tells_and_nothing_where_calls_are_unknown() -> None:
    # 30 us in 10 calls: 3 us each; 30 us in one call is long
    assert tiny_kernels(of(kernel("a", 30, calls=10), kernel("b", 30))) == TinyKernels(11, 10, 30.0 * US)
    assert tiny_kernels(of(kernel("a", 30, calls=None))) is None
    assert tiny_kernels(of()) is None


def test_the_top_kernel_is_summed_over_ops_and_stands_in_the_costliest() -> None:
    ops = (op("a", "Mul", 30, layer="l", source="m.py:3"), op("b", "Mul", 25), op("c", "Conv2D", 45))
    rows = (kernel("mul", 30, op="a", op_type="Mul"), kernel("mul", 25, op="b", op_type="Mul"),
            kernel("conv", 45, op="c", op_type="Conv2D"))  # fmt: skip
    top = top_kernel(of(*rows, ops=ops))
    assert top is not None
    assert (top.name, top.ns, top.share_pct, top.cause) == ("mul", 55 * US, 55.0, "type")
    assert top.where == Where("l", "a", None, "m.py:3")
    assert top.unnamed_pct == 0.0


def test_of_a_kernel_whose_op_is_known_in_part_the_rest_is_told() -> None:
    # 30 of 50 us without an op: 60 %
    rows = (kernel("gemm", 30), kernel("gemm", 20, op="a", op_type="MatMul"), kernel("b", 10))
    top = top_kernel(of(*rows, ops=(op("a", "MatMul", 20),)))
    assert top is not None
    assert (top.where.op, top.unnamed_pct) == (None, 60.0)


@pytest.mark.parametrize(
    ("name", "op_type", "convolves"),
    [
        ("gemm", "Conv2D", True),
        ("sm80_xmma_dgrad_implicit_gemm_f16", None, True),
        ("void cudnn::ops::nchwToNhwcKernel<__half>", None, True),
        ("void cudnn::detail::implicit_convolve_sgemm<float>", None, True),
        ("void Eigen::internal::TensorConversionOp<float, Eigen::half>", "MatMul", False),
        ("triton_poi_fused_add_grad_convert_element_type_0", "aten::addmm", False),
    ],
)
def test_a_convolution_shows_in_an_op_or_a_kernel(name: str, op_type: str | None, convolves: bool) -> None:
    found = layout_work(of(kernel("cast", 5, op_type="Cast"), kernel(name, 9, op_type=op_type)))
    assert found is not None
    assert found.convolutions is convolves


@pytest.mark.parametrize(
    ("ran", "named", "expected"),
    [
        ([op("a", "aten::mm", 9), op("b", "c10d::allreduce_", 1)], None, "pytorch"),
        ([op("alex_net/Relu", "_FusedConv2D", 9), op("m", "MatMul", 9)], None, "tensorflow"),
        ([op("jit(step)/jit(main)/dot_general", "dot", 9)], None, "jax"),
        ([op("/conv1/Conv", "Conv", 9), op("m", "MatMul", 9)], None, None),  # ONNX
        ([op("a", "aten::mm", 9), op("b", "BiasAddGrad", 9)], None, None),  # they disagree
        ([op("a", "aten::mm", 9), op("b", "ReadVariableOp")], None, "pytorch"),  # a loader of data: no kernel
        ([op("a", "aten::mm", 9)], "tensorflow 2.21.0", "tensorflow"),
        ([op("a", "aten::mm", 9)], "Paddle 3", None),
    ],
)
def test_the_ops_tell_the_framework(ran: list[dict[str, Value]], named: str | None, expected: str | None) -> None:
    assert framework(of(ops=tuple(ran), framework=named)) == expected


def test_without_ops_the_kernels_of_a_framework_tell_it() -> None:
    assert framework(of({"kernel": "void at::native::elementwise_kernel<128, 2>(int)"})) == "pytorch"
    assert framework(of({"kernel": "ampere_sgemm_128x64_tn"})) is None


@pytest.mark.parametrize(
    ("columns", "row", "cause"),
    [
        ({"cause": "tc_small", "uses_tc": "yes"}, {}, "tc_small"),
        ({"uses_tc": "yes"}, {}, "none"),
        ({"uses_tc": "unknown"}, {"tc_capable": "yes"}, "kernels_unknown"),
        ({}, {"tc_capable": "yes", "tc_blocker_kind": "library"}, "library"),
        ({}, {"tc_capable": "no"}, "type"),
    ],
)
def test_without_a_cause_the_op_tells(columns: dict[str, Value], row: dict[str, Value], cause: str) -> None:
    top = top_kernel(of(kernel("k", 9, op="a", op_type="MatMul", **columns), ops=({**op("a", "MatMul", 9), **row},)))
    assert top is not None
    assert top.cause == cause


def test_of_another_vendors_gpu_nothing_is_said() -> None:
    amd = table("devices", {"device": 0, "vendor": "AMD", "tensor_cores": "no", "state": "active"})
    assert top_kernel(of(kernel("k", 9)).with_tables(amd)) is None
    nccl = top_kernel(of(kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 9)))
    assert nccl is not None
    assert nccl.communicates


def test_layouts_are_by_cause_and_by_type_and_none_twice() -> None:
    rows = (
        kernel("nchwToNhwc", 20, op="c", op_type="Conv2D", cause="layout"),
        kernel("t", 10, op_type="Transpose"),
        kernel("cast", 5, op="x", op_type="Cast", cause="layout"),
        kernel("conv", 65, op="c", op_type="Conv2D"),
    )
    found = layout_work(of(*rows))
    assert found is not None
    assert (found.ns, found.casts_ns, found.where.op, found.op_ns) == (35 * US, 5 * US, "c", 20 * US)
    assert layout_work(of(kernel("conv", 9, op_type="Conv2D"))) is None


def test_casts_and_layouts_of_pytorch_run_under_one_op() -> None:
    at = "void at::native::"
    rows = (
        kernel(f"{at}vectorized_elementwise_kernel<8, {at}bfloat16_copy_kernel_cuda(T&)>", 20, op_type="aten::copy_"),
        kernel(f"{at}unrolled_elementwise_kernel<{at}direct_copy_kernel_cuda(T&), LoadWithCast<1>>", 10,
               op_type="aten::copy_"),
        kernel(f"{at}elementwise_kernel<128, {at}direct_copy_kernel_cuda(T&)>", 5, op_type="aten::copy_"),
        kernel("ncclDevKernel_SendRecv", 40, op_type="aten::copy_"),
        kernel(f"{at}elementwise_kernel<128, {at}direct_copy_kernel_cuda(T&)>", 80, op_type="aten::cat"),
    )  # fmt: skip
    found = layout_work(of(*rows))
    assert found is not None
    assert (found.ns, found.casts_ns, found.convolutions) == (35 * US, 30 * US, False)
    assert layout_work(of(rows[3])) is None


def iterations(*ms: float | None) -> Profile:
    rows = [
        {"iteration": n, "in_window": True, "steps": 1, "duration_ns": None if each is None else round(each * MS)}
        for n, each in enumerate(ms)
    ]
    return of(kernel("k", 9)).with_tables(table("iterations", *rows))


def test_first_steps_are_slow_beside_the_median_of_the_others() -> None:
    assert warm_up(iterations(30, 16, 10, 10, 10, 11, None), 7) == WarmUp(7, 2, 30.0 * MS, 10.0 * MS)
    assert warm_up(iterations(14, 10, 10, 10), 4) == WarmUp(4)  # 1.4 times as long
    assert warm_up(iterations(10, 10, 10, 30), 4) == WarmUp(4)  # a slow last step is no warm-up
    assert warm_up(iterations(30, 10, 30, 10, 10, 30, 10), 7) == WarmUp(7)  # later ones are as slow, again and again
    assert warm_up(iterations(30, 10, 10), 3) == WarmUp(3)  # too few to tell
    assert warm_up(of(), 3) is None


def test_kernels_that_ran_alone_under_their_counters_are_of_no_step() -> None:
    assert warm_up(replace(of(kernel("k", 9)), traits=frozenset({"serialises_kernels"})), None) is None
    assert warm_up(of(kernel("k", 9)), None) == WarmUp(None)


def test_a_key_node_of_an_epoch_shows_in_the_calls_of_the_others() -> None:
    found = open_profile(shared("samples/dlprof/v100_tf1_0.13_detailed.csv"))
    # AssignVariableOp_1 ran 41 times, most ops 492 = 41 x 12
    assert epoch_steps(found, 41.0) == 12
    assert epoch_steps(found.with_metadata(run={"key_node": "AssignVariableOp_1"}), None) == 12
    assert epoch_steps(found, 492.0) is None
    assert epoch_steps(found, None) is None
    assert epoch_steps(replace(found, traits=frozenset()), 41.0) is None


def test_what_switched_tf32_off_is_named() -> None:
    assert tf32_off(of(run={"environment": {"NVIDIA_TF32_OVERRIDE": "0"}})) == "environment"
    assert tf32_off(of(run={"environment": {"NVIDIA_TF32_OVERRIDE": "0"}}, precision="float32")) == "asked"
    assert tf32_off(of(notes=(Note("tf32-override", "off"),))) == "environment"
    assert tf32_off(of(run={"environment": {"NVIDIA_TF32_OVERRIDE": "1"}})) is None
    assert tf32_off(of(policy=Policy(tf32_off=True))) == "script"
    assert tf32_off(of(policy=Policy(tf32_off=True), precision="float32")) == "asked"


def test_memory_is_of_one_gpu_whose_peak_is_recorded() -> None:
    row = {"device": 0, "tensor_cores": "yes", "state": "active", "memory_bytes": 100, "peak_memory_bytes": 20}
    assert memory_use(of().with_tables(table("devices", row))) == MemoryUse(20.0, 100.0)
    for other in ({"peak_memory_bytes": None}, {"memory_bytes": None}, {"peak_memory_bytes": 101}, {"state": "idle"}):
        assert memory_use(of().with_tables(table("devices", {**row, **other}))) is None
    assert memory_use(of().with_tables(table("devices", row, {**row, "device": 1}))) is None


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(1, 50), st.integers(1, 5), st.sampled_from([None, "layout", "tc_small"])
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(100))
@given(ROWS, st.randoms())
def test_the_order_of_rows_never_matters(drawn: list[tuple[str, int, int, str | None]], random: Any) -> None:
    rows = [kernel(name, us, op=name, calls=calls, cause=cause) for name, us, calls, cause in drawn]
    shuffled = rows.copy()
    random.shuffle(shuffled)
    one, other = of(*rows), of(*shuffled)
    for fact in (tiny_kernels, top_kernel, layout_work, small_ns):
        assert fact(one) == fact(other)
