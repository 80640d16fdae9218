"""What to do first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.analysis.capability import tc_blocker
from tcprobe.analysis.flow import with_advice
from tcprobe.hardware import find_gpu
from tcprobe.report.run import advice
from tcprobe.rules.run.base import OffOp
from tcprobe.schema.advice import AdviceKind
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import Blocker, BlockerKind, SizeAdviceKind
from tcprobe.schema.profile import Profile, Window
from tests.report.builders import MS, cpu_profile, gpu_profile, summary_only, table
from tests.rules.run import builders as built


def steps_of(profile: Profile, *tables: Table) -> list[str]:
    """The steps where no clock tells how long the GPU waits."""
    return advice.advice_sentences(with_advice(replace(profile, waiting=None).with_tables(*tables)))


def test_the_costliest_comes_first_and_names_the_line() -> None:
    steps = advice.advice_sentences(gpu_profile())
    # 42 ms over the window's two steps
    assert steps[0] == (
        "filters 1 -> 8, keep the first: conv2d_3 (generator/conv2d_3, wgrad, train_gan.py:61). Why: 1 output "
        "channel: cuDNN runs its weight gradient on a CUDA-core kernel; 21.0 ms of kernel time in a step, "
        "42.0 % of the kernel time; predicted to save up to 20 ms a step in this layer, likely 27.3 % of the step."
    )
    assert "the GPU waits 5.00 ms of a step of 55.0 ms, 9.1 %" in steps[1]
    assert steps[2] == (
        "filters 63 -> 64: conv2d (generator/conv2d, train_gan.py:57). Why: 1.50 ms of kernel time in a step, "
        "3.0 % of the kernel time; predicted to save 0.7-0.9 ms a step in the layers that it changes, likely 1.5 % of "
        "the step; forward and dgrad run at 37-43 % of an aligned one on an A100."
    )
    assert len(steps) == 3


def test_without_a_gpu_flops_are_weighed() -> None:
    first, second = advice.advice_sentences(cpu_profile())
    assert first.startswith("units 3087 -> 3088: dense (generator/dense")
    assert "21.0 % of the FLOPs of a step" in second


@pytest.mark.parametrize("kind", ["image", "no_tensor_cores", "change_before", "fewer_groups", "measured_free"])
def test_a_size_to_be_left_alone_is_no_advice(kind: SizeAdviceKind) -> None:
    row = {"layer": "l", "dimension": "units", "size": 10, "next_size": 16, "multiple": 8, "basis": "graph",
           "kernel_ns": 1, "share_pct": 90.0, "advice_kind": kind}  # fmt: skip
    tables = table("ops"), table("bad_sizes", row)
    assert steps_of(gpu_profile(), *tables) == []
    assert len(steps_of(gpu_profile(), tables[0], table("bad_sizes", {**row, "advice_kind": "change"}))) == 1


def test_a_hundredth_is_not_worth_a_step() -> None:
    row = {"layer": "l", "dimension": "units", "size": 10, "next_size": 16, "multiple": 8, "basis": "graph"}
    small, large = ({**row, "flops_pct": share} for share in (0.9, 1.1))
    assert steps_of(gpu_profile(), table("ops"), table("bad_sizes", small)) == []
    assert len(steps_of(gpu_profile(), table("ops"), table("bad_sizes", large))) == 1


def test_nothing_known_is_no_advice() -> None:
    assert steps_of(summary_only()) == []


@pytest.mark.parametrize(
    ("gpu", "dtype", "more", "kind", "said"),
    [
        ("t4", "float32", {}, "mixed_precision", "Mixed precision in float16"),
        ("t4", "bfloat16", {}, "use_float16", "float16 in place of bfloat16"),
        ("t4", "float64", {}, "use_float32", "Compute in float32"),
        ("p100", "float32", {}, "use_gpu", "A GPU with Tensor Cores"),
        ("a100-sxm-40", "float32", {"tf32_allowed": False}, "allow_tf32", "TF32: "),
        ("a100-sxm-40", "float32", {"tf32_allowed": None}, "check_tf32", "TF32: "),
        (
            "a100-sxm-40",
            "float16",
            {"uses_tc": "no"},
            "library",
            "Try, and compare step times: larger sizes, a larger batch, XLA",
        ),
        (
            "a100-sxm-40",
            "float16",
            {"uses_tc": "no", "contiguous_dims_bytes_aligned": False},
            "align_sizes",
            "Make the sizes multiples",
        ),
        ("a100-sxm-40", "float16", {"uses_tc": "unknown"}, None, None),
        ("a100-sxm-40", None, {"uses_tc": "no"}, None, None),
    ],
)
def test_every_blocker_that_has_a_cure_gets_it(
    gpu: str, dtype: str, more: dict[str, object], kind: AdviceKind | None, said: str | None
) -> None:
    known: dict[str, object] = {
        "compute_capability": None, "tf32_allowed": True, "contiguous_dims_bytes_aligned": True, "uses_tc": "no",
    }  # fmt: skip
    blocker = tc_blocker("MatMul", dtype, find_gpu(gpu), **{**known, **more})  # type: ignore[arg-type]
    row = {"op": "a", "op_type": "MatMul", "layer": None, "pass": None, "source": None}
    run = built.subject(OffOp(row, blocker, 1.0), total=1.0)
    found = built.found(run)
    assert [item.kind for item in found] == ([kind] if kind else [])
    if said:
        assert advice.advice_sentence(found[0]).startswith(said)


@pytest.mark.parametrize("framework", ["tensorflow 2.21.0", "pytorch 1.8", None])
@pytest.mark.parametrize(
    ("gpu", "more", "said", "never"),
    [
        ("t4", {}, "float16", ("bfloat16", "TF32")),
        ("v100-sxm2", {}, "float16", ("bfloat16", "TF32")),
        ("a100-sxm-40", {"tf32_allowed": False}, "TF32", ()),
    ],
)
def test_a_precision_fits_the_gpu(
    framework: str | None, gpu: str, more: dict[str, object], said: str, never: tuple[str, ...]
) -> None:
    known: dict[str, object] = {
        "compute_capability": None, "tf32_allowed": None, "contiguous_dims_bytes_aligned": None, "uses_tc": "no",
    }  # fmt: skip
    reason = tc_blocker("MatMul", "float32", find_gpu(gpu), **{**known, **more})  # type: ignore[arg-type]
    row = {"op": "a/MatMul", "op_type": "MatMul", "tc_capable": "yes", "sum_ns": 9, "tc_ns": 0, **reason.columns()}
    kernel = {"kernel": "sgemm", "op": "a/MatMul", "op_type": "MatMul", "sum_ns": 9, "uses_tc": "no", "evidence": "-"}
    tables = table("ops", row), table("kernels", kernel), table("bad_sizes")
    (step,) = steps_of(gpu_profile().with_metadata(framework=framework), *tables)
    assert said in step.partition(". Why")[0]
    assert not [word for word in never if word in step.partition(". Why")[0]]


SHAPE = "a contiguous dimension is no multiple of 16 bytes, and the library ran "


def off(
    layer: str | None, kind: BlockerKind, ran: str | None, ms: int, op_type: str = "Conv2D", **more: object
) -> dict[str, object]:
    return {"op": f"{layer}/{op_type}/{ms}", "op_type": op_type, "layer": layer, "tc_capable": "yes",
            "sum_ns": ms * MS, "tc_ns": 0, **Blocker(kind, kernel=ran).columns(), **more}  # fmt: skip


def size(layer: str, dimension: str, now: int, ms: int, kind: SizeAdviceKind, **more: object) -> dict[str, object]:
    return {"layer": layer, "layer_class": "Dense", "dimension": dimension, "size": now,
            "next_size": now // 8 * 8 + 8, "multiple": 8, "basis": "graph", "kernel_ns": ms * MS,
            "share_pct": float(ms), "dtype": "float16", "advice_kind": kind, **more}  # fmt: skip


def rated(low: int, high: int, basis: str = "predicted") -> dict[str, object]:
    return {"rate_low_pct": low, "rate_high_pct": high, "rate_basis": basis, "advice_gpu": "A100 SXM4 80GB"}


def told(ops: list[dict[str, object]], sizes: list[dict[str, object]], **metadata: object) -> list[str]:
    """The steps of a run whose kernels take 100 ms."""
    kernel = {"kernel": "k", "op": "of no row", "sum_ns": 100 * MS, "uses_tc": "no", "evidence": "its name"}
    tables = (table("kernels", kernel), table("ops", *ops), table("bad_sizes", *sizes))  # type: ignore[arg-type]
    return steps_of(gpu_profile(**metadata), *tables)


@pytest.mark.parametrize(("filters", "kept"), [(1, "the first"), (3, "the first 3")])
def test_few_filters_are_one_item_that_names_kernel_pass_and_cost(filters: int, kept: str) -> None:
    channels = f"{filters} output channel{'s' * (filters > 1)}"
    ops = [off("g/last", "shape", "wgrad2d", 40, **{"pass": "wgrad"}), off("g/last", "shape", "dgrad2d", 5)]
    sizes = [size("g/last", "filters", filters, 45, "slice"), size("g/last", "channels", 7, 45, "change_before")]
    assert told(ops, sizes) == [
        f"filters {filters} -> 8, keep {kept}: last (g/last, wgrad). Why: {channels}: cuDNN runs its weight gradient "
        "on a CUDA-core kernel, wgrad2d; 20.0 ms of kernel time in a step of 55.0 ms, 40.0 % of the kernel time."
    ]


def test_few_filters_on_tensor_cores_are_no_item() -> None:
    assert told([off("g/last", "none", None, 40, tc_ns=40 * MS)], [size("g/last", "filters", 1, 45, "slice")]) == []


def test_sizes_to_be_left_alone_are_not_to_be_made_multiples() -> None:
    ops = [off("d/first", "shape", "sgemm", 9), off("d/other", "shape", "sgemm", 2)]
    (step,) = told(ops, [size("d/first", "channels", 1, 9, "image")])
    assert step.startswith("Make the sizes multiples of 8: see Badly sized.")
    assert "2.0 % of the kernel time; costliest: d/other." in step


def test_a_layer_with_a_size_to_change_is_one_item() -> None:
    sizes = [
        size("g/dense", "features", 3087, 9, "change", **rated(40, 40, "published"), image_channels=63),
        size("g/dense", "features", 100, 9, "change"),
    ]
    (step,) = told([off("g/dense", "shape", "sgemm", 9, "MatMul")], sizes)
    assert step.startswith("features 3087 -> 3088, features 100 -> 104: dense (g/dense). Why: 4.50 ms")
    assert step.endswith(
        "9.0 % of the kernel time; runs on Tensor Cores at about 40 % of the aligned rate (16-bit, large products on "
        "an A100); if it is reshaped to images of 63 channels (3087 = 49 x 63), give them 64: 49 x 64 = 3136 units."
    )


def saved(low: int, likely: int, high: int, pct: float, basis: str = "measured x predicted") -> dict[str, object]:
    return {"saving_low_ns": low * 1000, "saving_ns": likely * 1000, "saving_high_ns": high * 1000,
            "saving_pct": pct, "saving_basis": basis}  # fmt: skip


def test_of_sizes_the_largest_saving_comes_first_and_other_things_keep_their_place() -> None:
    ops = [off("x", "library", "kernel", 20, "MatMul")]
    sizes = [
        {**size("slow", "units", 4090, 30, "change", **rated(90, 95)), **saved(900, 1000, 1100, 2.0)},
        {**size("bad", "units", 4091, 10, "change", **rated(37, 43)), **saved(2000, 2500, 2600, 5.0)},
    ]
    first, second, third = told(ops, sizes)
    assert first.startswith("units 4091 -> 4096: bad (bad).")
    assert "predicted to save 2-2.6 ms a step in the layers that it changes, likely 5.0 % of the kernel time" in first
    assert first.endswith("run at 37-43 % of an aligned one on an A100.")
    assert second.startswith("Try, and compare step times: larger sizes")
    assert third.startswith("units 4090 -> 4096: slow (slow).")


@pytest.mark.parametrize(
    ("saving", "items"),
    [
        ((-9, -1, 8, -0.1), 0),  # likely a loss
        ((0, 10, 19, 0.5), 0),  # at most 0.95 % of the kernel time
        ((0, 10, 21, 0.5), 1),
    ],
)
def test_a_size_that_may_not_save_a_hundredth_is_no_advice(saving: tuple[int, int, int, float], items: int) -> None:
    row = {**size("l", "units", 4090, 30, "change", **rated(90, 95)), **saved(*saving)}
    assert len(told([], [row])) == items


def test_savings_of_one_layer_are_added_and_unknown_ones_are_not_guessed() -> None:
    sizes = [size("g/dense", name, now, 9, "change") for name, now in (("features", 3087), ("features", 100))]
    (step,) = told([], [{**row, **saved(10, 20, 30, 2.0, "measured x calibrated")} for row in sizes])
    assert "(calibrated) to save 20-60 us a step in the layers that it changes, likely 4.0 % of the kernel time" in step
    (step,) = told([], [{**sizes[0], **saved(10, 20, 30, 2.0)}, sizes[1]])
    assert "save" not in step


def test_few_filters_that_nobody_measured_are_told_of_where_they_pay() -> None:
    row = {**size("g/last", "filters", 1, 0, "slice"), "kernel_ns": None, "share_pct": None, "flops_pct": 0.5}
    (step,) = told([], [{**row, **saved(-10, 30_000, 60_000, 77.0, "predicted")}])
    assert step == (
        "filters 1 -> 8, keep the first: last (g/last). Why: 1 output channel: cuDNN may run the "
        "weight gradient on a CUDA-core kernel; predicted to save up to 60 ms a step in this layer, likely 77.0 % of "
        "the step's products."
    )
    assert told([], [row]) == []


@pytest.mark.parametrize(
    ("op_type", "xla", "said"),
    [
        ("Conv2D", False, "Try, and compare step times: 8 or more channels, channels last (NHWC), XLA."),
        ("Conv2D", True, "Try, and compare step times: 8 or more channels, channels last (NHWC)."),
        ("MatMul", False, "Try, and compare step times: larger sizes, a larger batch, XLA."),
        ("MatMul", True, "Try, and compare step times: larger sizes, a larger batch."),
    ],
)
def test_one_remedy_is_one_item_that_fits_op_and_compiler(op_type: str, xla: bool, said: str) -> None:
    ops = [off(None, "library", f"kernel_{n}", 10 + n, op_type) for n in range(3)]
    (step,) = told(ops, [], xla=xla)
    assert step.startswith(said)
    assert "33.0 % of the kernel time" in step


def test_a_product_with_a_vector_has_no_remedy() -> None:
    assert told([off("d/dense", "library", "gemv2T_kernel_val", 30, "MatMul")], []) == []


def test_without_known_steps_costs_are_shares() -> None:
    step, last = told([off(None, "shape", "sgemm", 9)], [], window=Window())
    assert last.startswith("Profile several later steps, each marked")
    assert step == (
        f"Make the sizes multiples of 8. Why: {SHAPE}sgemm; 9.0 % of the kernel time; costliest: None/Conv2D/9."
    )
