"""Bounds of kernels whose shapes nobody knows, and predictions where ranges or kernels tell what ops do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.cost.constants import fitted
from tcprobe.hardware import find_gpu
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCHES, OP_DETAILS
from tests.analysis import builders as b
from tests.analysis.whatif.runs import A100, analysed

SGEMM = "volta_sgemm_128x64_nn"
CONV = "void implicit_convolve_sgemm<__half, __half, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int, int, int)"
IM2COL = "void im2col4d_kernel<float, int>(im2col4d_params, cudnnConvolutionStruct, float const*, float*)"


def run(*given: tuple[str, int], gpu: dict[str, Any] | None = None, details: Any = None, **more: Any) -> Profile:
    """Launches of (kernel, length in us), one after the other; op_id is the place where `details` are given."""
    rows, at = [], 0
    for place, (kernel, length) in enumerate(given):
        rows.append(
            {
                "device": 0, "stream": 7, "kernel": kernel, "start_ns": at, "duration_ns": length * 1000,
                "op_id": place if details is not None else -1, "config_id": -1,
            }
        )  # fmt: skip
        at += length * 1000
    tables = [b.table(LAUNCHES, rows), b.devices(gpu or {})]
    return b.profile(*tables, *([] if details is None else [b.table(OP_DETAILS, details)]), **more)


def test_float32_without_shapes_gains_nothing_to_what_the_rates_of_its_tile_allow() -> None:
    # V100: 15.7 TFLOP/s in float32, 125 on Tensor Cores; a tile of 128x64 reaches 0.75 of the best on both, of which a
    # library reaches 0.917 and 0.860: 300 us x (1 - 15.7 x 0.917 / (125 x 0.860)) = 259.8 us
    (one,) = analyse(run((SGEMM, 300), (b.OTHER, 100))).what_ifs
    assert (one.change, one.bound, one.basis) == ("mixed_float16", True, "tile rates")
    v100 = find_gpu("v100-sxm2")
    fast = 15.7 * fitted(v100, "fp32").rate.emax / (125 * fitted(v100, "tc16").rate.emax)
    assert (one.gain_ns.low, one.gain_ns.high) == (0.0, pytest.approx(300_000 * (1 - fast)))
    assert one.gain_ns.high == pytest.approx(259_800, rel=1e-3)
    assert one.gain_ns.high < one.spent_ns == 300_000


def test_its_row_has_no_likely_gain() -> None:
    (row,) = b.rows(analyse(run((SGEMM, 300))), "what_ifs")
    assert row["bound"] is True
    assert row["gain_ns"] is row["new_step_ns"] is None
    assert (row["gain_low_ns"], row["ops"]) == (0.0, 1)


def test_half_precision_convolutions_on_cuda_cores_are_the_librarys_choice() -> None:
    (one,) = analyse(run((CONV, 300), (b.OTHER, 100))).what_ifs
    assert one.change == "tensor_cores"
    assert 0 < one.gain_ns.high < 300_000


def test_what_prepares_a_convolution_may_go_altogether() -> None:
    alone = analyse(run((SGEMM, 300))).what_ifs[0].gain_ns.high
    conv = "volta_scudnn_128x64_relu_small_nn_v1"
    both, without = (
        analyse(run(*given)).what_ifs[0].gain_ns.high for given in (((conv, 300), (IM2COL, 50)), ((conv, 300),))
    )
    assert both == pytest.approx(without + 50_000)
    assert without == pytest.approx(alone)


def test_tf32_off_has_a_row_for_tf32_and_for_16_bits() -> None:
    found = {one.change: one for one in analyse(run((SGEMM, 300), gpu=A100, precision="float32")).what_ifs}
    assert set(found) == {"allow_tf32", "mixed_float16", "mixed_bfloat16"}
    assert found["allow_tf32"].gain_ns.high < found["mixed_float16"].gain_ns.high < 300_000


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (run((SGEMM, 300), gpu={"name": None, "compute_capability": None, "sm_count": None}), "gpu_unknown"),
        (run((SGEMM, 300), gpu={"name": "Tesla P100-PCIE-16GB", "compute_capability": "6.0", "sm_count": 56}),
         "no_tensor_cores"),
        (run((b.TC, 300)), "no_products"),
        (b.profile(b.graph(b.dense("a", 64, 64)), gpu_used=False), "no_gpu"),
        (run((SGEMM, 1), (b.TC, 300)), "no_products"),
    ],
    ids=["unknown GPU", "no Tensor Cores", "on Tensor Cores", "no GPU", "less than a hundredth"],
)  # fmt: skip
def test_an_empty_table_has_its_reason_as_a_kind(profile: Profile, why: str) -> None:
    made = analyse(profile)
    assert (made.what_ifs, made.no_what_if) == ((), why)
    assert "what_ifs" in made.absent


def test_a_bound_is_no_saving_of_advice() -> None:
    made = analyse(run((SGEMM, 300), (b.OTHER, 100)))
    assert made.what_ifs
    assert all(item.saving is None for item in made.advice)


MM = {"op_type": "aten::mm", "input_shapes": json.dumps([[4096, 4096], [4096, 4096]])}


def test_sizes_of_ranges_and_dtypes_of_kernels_predict_a_step() -> None:
    # aten::mm with sizes and without dtype; its kernel is sgemm: float32. 300 us at 19.5 TFLOP/s, then at 312.
    details = [{"op": "aten::mm", **MM}]
    made = analysed(run((SGEMM, 300), gpu=A100, details=details))
    found = {one.change: one for one in made.what_ifs}
    assert not found["mixed_float16"].bound
    assert found["mixed_float16"].gain_ns.mid == pytest.approx(300_000 * (1 - 19.5 / 312))
    (row,) = b.rows(made, "gemms")
    assert (row["m"], row["n"], row["k"], row["dtype"]) == (4096, 4096, 4096, "float32")


def test_a_kernel_that_does_not_tell_its_dtype_predicts_nothing() -> None:
    made = analysed(run(("mystery_gemm_kernel", 300), gpu=A100, details=[{"op": "aten::mm", **MM}]))
    assert made.what_ifs == ()
    assert made.no_what_if is not None
