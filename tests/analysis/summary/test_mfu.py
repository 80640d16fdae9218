"""Model FLOPs utilisation, worked by hand: FLOPs at the dense peak of each dtype over the time of all GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.report.run.figures import value_text
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.readers.nsys import test_torch

STEP = 1000  # ns, start to start
FLOPS = 2 * 32 * 64 * 128  # of b.dense(_, 64, 128)
FP16, FP32 = 125e3, 15.7e3  # FLOP a ns of a V100: with Tensor Cores, and of its CUDA cores
A100 = {"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "sm_count": 108}
NAMELESS = {"name": None, "compute_capability": None, "sm_count": None}
TF32_KERNEL = "ampere_tf32_s1688gemm_128x128_ldg8_nn"


def run(
    *rows: dict[str, Any], kernel: str = b.TC, on: tuple[int, ...] = (0,), gpus: Any = None, **more: Any
) -> Profile:
    """Six steps that run the first op on some GPUs, and another kernel on each."""
    gpus = gpus or [{}]
    events = [(kernel, 0, i, STEP * i + 10, 300, d) for i in range(6) for d in on]
    events += [(b.OTHER, -1, i, STEP * i + 500, 50, d) for i in range(6) for d in range(len(gpus))]
    first = rows[0] if rows else b.dense("a", 64, 128)
    details = b.details((first["op"], first["op_type"], first["input_dtypes"][0]))
    marks = b.marks([STEP * i for i in range(6)], 900)
    return analyse(b.profile(b.launches(*events), details, b.devices(*gpus), marks, b.graph(*rows), **more))


def figures(analysed: Profile) -> dict[str, dict[str, Any]]:
    return {name: row for name, row in b.summary(analysed).items() if name.startswith(("mfu", "hfu"))}


def test_one_gpu() -> None:
    found = figures(run(b.dense("a", 64, 128)))
    assert set(found) == {"mfu_pct", "mfu_peak_tflop_per_s"}
    assert found["mfu_pct"]["value"] == pytest.approx(100 * FLOPS / FP16 / STEP)
    assert found["mfu_pct"]["basis"] == "graph"
    said = "against 125 TFLOP/s in float16 of 1 GPU; of a step under the profiler, which slows it"
    assert found["mfu_pct"]["reason"] == said
    assert (found["mfu_peak_tflop_per_s"]["value"], found["mfu_peak_tflop_per_s"]["text"]) == (125.0, "float16")


def test_the_step_is_the_one_outside_the_profiler() -> None:
    steps = b.steps(*((i, 0, 400, "measured") for i in range(8)))
    launched = b.launches(*((b.TC, 0, i, STEP * i, 300) for i in range(6)))
    made = b.profile(
        launched, b.details(("model/a/MatMul", "MatMul")), b.devices({}), b.marks([STEP * i for i in range(6)], 900),
        b.graph(b.dense("a", 64, 128)), steps,
    )  # fmt: skip
    found = figures(analyse(made))["mfu_pct"]
    assert found["value"] == pytest.approx(100 * FLOPS / FP16 / 400)
    assert found["reason"] == "against 125 TFLOP/s in float16 of 1 GPU"


def test_of_two_kinds_of_steps_the_mean_counts() -> None:
    """Every third step is 4.5 times as long: FLOPs are those of a mean step."""
    lengths = [1800 if i % 3 == 2 else 400 for i in range(30)]
    rows = [(i, sum(lengths[:i]), spent, "measured") for i, spent in enumerate(lengths)]
    launched = b.launches(*((b.TC, 0, i, STEP * i, 300) for i in range(6)))
    made = b.profile(
        launched, b.details(("model/a/MatMul", "MatMul")), b.devices({}), b.marks([STEP * i for i in range(6)], 900),
        b.graph(b.dense("a", 64, 128)), b.steps(*rows),
    )  # fmt: skip
    analysed = analyse(made)
    assert analysed.value("long_step_ns") == 1800
    found = figures(analysed)["mfu_pct"]
    assert found["value"] == pytest.approx(100 * FLOPS / FP16 / ((2 * 400 + 1800) / 3))
    assert found["reason"].endswith("of the mean step: there are two kinds")


@pytest.mark.parametrize(("on", "replicas"), [((0, 1), 2), ((1,), 1)])
def test_two_gpus(on: tuple[int, ...], replicas: int) -> None:
    """FLOPs of all replicas, over the time of all GPUs that ran: also of the one that multiplied nothing."""
    found = figures(run(b.dense("a", 64, 128), on=on, gpus=[{}, {"device": 1}]))["mfu_pct"]
    assert found["value"] == pytest.approx(100 * replicas * FLOPS / FP16 / (2 * STEP))
    assert "of 2 GPUs" in found["reason"]


def test_a_product_that_no_kernel_shows_ran_on_one_gpu_at_least_and_on_all_at_most() -> None:
    found = figures(run(b.dense("a", 64, 128), b.dense("b", 64, 128), on=(0, 1), gpus=[{}, {"device": 1}]))["mfu_pct"]
    once = 100 * FLOPS / FP16 / (2 * STEP)
    assert (found["value"], found["low"], found["high"]) == (None, pytest.approx(3 * once), pytest.approx(4 * once))
    assert "on how many of the GPUs some products ran is not known" in found["reason"]


def test_products_of_several_dtypes_each_take_their_own_peak() -> None:
    found = figures(run(b.dense("a", 64, 128), b.dense("b", 64, 128, dtype="float32"), precision="float32"))
    assert found["mfu_pct"]["value"] == pytest.approx(100 * (FLOPS / FP16 + FLOPS / FP32) / STEP)
    peak = found["mfu_peak_tflop_per_s"]
    assert peak["value"] == pytest.approx(2 / (1 / 125 + 1 / 15.7))
    assert peak["text"] == "float16 and float32"


@pytest.mark.parametrize(
    ("kernel", "precision", "dtype", "peak"),
    [
        (TF32_KERNEL, None, "tf32", 156.0),
        ("ampere_sgemm_128x64_nn", None, "float32", 19.5),
        ("ampere_sgemm_128x64_nn", "tf32", "tf32", 156.0),  # the run asked for it, and the library chose otherwise
        (TF32_KERNEL, "float32", "float32", 19.5),
    ],
)
def test_float32_is_held_against_what_it_ran_in(kernel: str, precision: str | None, dtype: str, peak: float) -> None:
    found = figures(run(b.dense("a", 64, 128, dtype="float32"), kernel=kernel, gpus=[A100], precision=precision))
    assert (found["mfu_peak_tflop_per_s"]["value"], found["mfu_peak_tflop_per_s"]["text"]) == (peak, dtype)
    assert found["mfu_pct"]["value"] == pytest.approx(100 * FLOPS / (peak * 1e3) / STEP)


def test_what_is_recomputed_counts_in_hfu_alone() -> None:
    again = b.dense("a", 64, 128, op="again/MatMul", attributes={"recomputed": True})
    found = figures(run(b.dense("a", 64, 128), again))
    assert found["mfu_pct"]["value"] == pytest.approx(100 * FLOPS / FP16 / STEP)
    assert found["hfu_pct"]["value"] == pytest.approx(2 * 100 * FLOPS / FP16 / STEP)


@pytest.mark.parametrize(
    ("op", "instruction", "model", "hardware"),
    [
        ("jit(f)/jvp(Net)/dot_general", "dot.1", 1, None),
        ("jit(f)/transpose(jvp(Net))/checkpoint/rematted_computation/dot_general", "dot.1", 0, 1),
        ("jit(f)/jvp(Net)/dot_general", "dot.1.remat2", 0, 1),
        ("jit(f)/rematted_computation_of_mine/dot_general", "dot.1", 1, None),
    ],
)
def test_jax_and_xla_name_what_they_recompute(op: str, instruction: str, model: int, hardware: int | None) -> None:
    row = {
        "op": op, "op_type": "dot", "function": "jit_f", "executed_op": instruction, "executed_type": "dot",
        "input_shapes": [[32, 64], [64, 128]], "input_dtypes": ["float16"] * 2, "output_shape": [32, 128],
        "attributes": {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]},
    }  # fmt: skip
    found = figures(run(row))
    share = 100 * FLOPS / FP16 / STEP
    assert found["mfu_pct"]["value"] == pytest.approx(model * share)
    assert found.get("hfu_pct", {}).get("value") == (None if hardware is None else pytest.approx(share))


def test_where_nothing_tells_what_is_recomputed_mfu_is_at_most_hfu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's ranges: a product in a backward range may be one of the forward pass again."""
    of_16_bits = [(*one, kernel and b.TC) for *one, kernel in test_torch.RANGES]
    monkeypatch.setattr(test_torch, "RANGES", of_16_bits)
    analysed = analyse(test_torch.recorded(tmp_path))
    found, share = figures(analysed), 100 * 3 * 2 * 64 * 784 * 256 / FP16 / 1e6
    assert found["hfu_pct"]["value"] == pytest.approx(share)
    assert (found["mfu_pct"]["value"], found["mfu_pct"]["low"]) == (None, None)
    assert found["mfu_pct"]["high"] == pytest.approx(share)
    assert value_text("mfu_pct", found["mfu_pct"]) == "at most 0.1 %"


def test_a_lower_bound_of_flops_is_one_of_mfu() -> None:
    unseen = b.dense("b", 64, 128, input_shapes=[[None, 64], [64, 128]], output_shape=[None, 128])
    found = figures(run(b.dense("a", 64, 128), unseen))["mfu_pct"]
    assert (found["value"], found["high"]) == (None, None)
    assert found["low"] == pytest.approx(100 * FLOPS / FP16 / STEP)
    assert found["reason"].endswith("1 of 2 matrix multiplications have unknown shapes: a lower bound")


def test_products_that_may_not_execute_make_a_range() -> None:
    found = figures(run(b.dense("a", 64, 128), b.dense("b", 64, 128, executes="unknown")))["mfu_pct"]
    once = 100 * FLOPS / FP16 / STEP
    assert (found["value"], found["low"], found["high"]) == (None, pytest.approx(once), pytest.approx(2 * once))


@pytest.mark.parametrize(
    ("rows", "more", "kind"),
    [
        ([b.dense("a", 64, 128)], {"gpus": [NAMELESS]}, "gpu_unknown"),
        ([b.dense("a", 64, 128)], {"gpus": [{}, {**A100, "device": 1}]}, "gpu_unknown"),
        ([b.dense("a", 64, 128)], {"gpus": [{"vendor": "AMD", "name": "MI300X"}]}, "not_nvidia"),
        ([b.dense("a", 64, 128, dtype="bfloat16")], {}, "no_peak"),
        ([], {}, "no_flops"),
    ],
)  # fmt: skip
def test_why_there_is_none(rows: list[dict[str, Any]], more: dict[str, Any], kind: str) -> None:
    found = figures(run(*rows, **more))
    assert set(found) == {"mfu_pct"}
    row = found["mfu_pct"]
    assert (row["value"], row["low"], row["high"], row["basis"]) == (None, None, None, None)
    assert row["reason_kind"] == kind


def test_without_a_step_or_a_gpu_there_is_none() -> None:
    graph = b.graph(b.dense("a", 64, 128))
    details = b.details(("model/a/MatMul", "MatMul"))
    no_step = analyse(b.profile(b.launches((b.TC, 0, -1, 0, 300)), details, b.devices({}), graph))
    assert figures(no_step)["mfu_pct"]["reason_kind"] == "no_step"
    steps = b.steps(*((i, 0, 400, "measured") for i in range(8)))
    on_cpu = analyse(b.profile(graph, steps, gpu_used=False))
    assert figures(on_cpu)["mfu_pct"]["reason_kind"] == "no_gpu"
