"""GPUs: the file's figures, names as drivers report them, and telling a GPU by its figures."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.hardware import GIB, Gpu, find_gpu, has_tensor_cores, identify, load_gpus, lookup_gpu
from tests.support import shared

ADDED = ("h100-sxm-96",)
"""GPUs that the reference lacks."""


def test_every_gpu_has_a_source_and_a_float32_peak() -> None:
    gpus = load_gpus()
    assert len(gpus) == 58
    assert len({gpu.id for gpu in gpus}) == len(gpus)
    for gpu in gpus:
        assert gpu.source, gpu.id
        assert gpu.evidence, gpu.id
        assert gpu.peak_flop_per_s("float32"), gpu.id
        assert gpu.tensor_cores == (gpu.peak_flop_per_s("fp16") is not None), gpu.id


def test_figures_are_those_of_the_reference() -> None:
    with shared("reference/gpus.csv").open(encoding="utf-8", newline="") as file:
        reference = {row["id"]: row for row in csv.DictReader(file)}
    assert [gpu.id for gpu in load_gpus() if gpu.id not in ADDED] == list(reference)
    for gpu in load_gpus():
        if gpu.id in ADDED:
            continue
        row = reference[gpu.id]
        assert (gpu.sm, gpu.boost_mhz) == (int(row["sm"]), int(row["boost_mhz"]))
        assert gpu.bandwidth_bytes_per_s == pytest.approx(float(row["mem_bw_gbs"]) * 1e9)
        assert gpu.memory_bytes == int(float(row["mem_gb"]) * GIB)
        half = row["fp16_tc_fp32acc_tflops"]
        assert gpu.peak_flop_per_s("float16") == (float(half) * 1e12 if half else None)


def test_peaks_are_dense_and_accumulate_in_float32() -> None:
    assert find_gpu("rtx3090").peak_flop_per_s("float16") == 71e12
    assert find_gpu("a100-sxm-40").peak_flop_per_s("tf32") == 156e12
    assert find_gpu("a100-sxm-40").peak_flop_per_s("float32") == 19.5e12
    assert find_gpu("h100-sxm").peak_flop_per_s("bfloat16") == 989e12
    assert find_gpu("t4").peak_flop_per_s("bfloat16") is None
    assert find_gpu("t4").peak_flop_per_s("complex64") is None


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ("Tesla T4", "t4"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2"),
        ("Tesla V100-PCIE-32GB", "v100-pcie"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("GeForce RTX 2070 SUPER", "rtx2070s"),
        ("NVIDIA GeForce GTX 1660 SUPER", "gtx1660super"),
        ("TITAN RTX", "titan-rtx"),
        ("Quadro RTX 8000", "quadro-rtx6000-8000"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
        ("NVIDIA L4", "l4"),
        ("a100-sxm-40", "a100-sxm-40"),
    ],
)
def test_finds_a_gpu_by_the_name_a_driver_reports(reported: str, expected: str) -> None:
    assert find_gpu(reported).id == expected


@pytest.mark.parametrize(
    "other", ["NVIDIA GeForce RTX 3060 Laptop GPU", "NVIDIA A100-PG509-200", "GeForce RTX 2080 with Max-Q Design", ""]
)
def test_a_variant_is_not_taken_for_the_model(other: str) -> None:
    assert lookup_gpu(other) is None


def test_an_unknown_name_is_an_error_that_offers_the_nearest() -> None:
    with pytest.raises(UsageError, match="no GPU called 'A100'") as caught:
        find_gpu("A100")
    assert caught.value.hint is not None
    assert "a100-sxm-40" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        find_gpu("Voodoo 2 SLI zzzz")
    assert caught.value.hint is not None


def test_every_id_name_and_alias_leads_back_to_its_gpu() -> None:
    for gpu in load_gpus():
        for name in (gpu.id, gpu.name, *gpu.aliases):
            assert find_gpu(name) is gpu


@pytest.mark.parametrize(
    ("capability", "sm", "bandwidth", "memory", "clock", "expected"),
    [
        # figures as the device planes of real XSpace files, Kineto traces and Nsight Systems exports give them
        ((7, 5), 40, 320_064_000_000, 15_812_263_936, 1_590_000, "t4"),
        ((7, 0), 80, 898_048_000_000, 16_945_512_448, 1_530_000, "v100-sxm2"),
        ((6, 0), 56, 732_160_000_000, 17_071_734_784, 1_328_500, "p100"),
        ((8, 6), 82, 936_096_000_000, 25_438_126_080, 1_695_000, "rtx3090"),
        ((8, 0), 108, None, 42_297_524_224, None, "a100-sxm-40"),
        ((10, 3), 148, None, 287_431_131_136, None, "b300"),
        # the T4's 40 SMs are also an RTX 2070 SUPER's
        ((7, 5), 40, 448_064_000_000, 8_366_784_512, 1_770_000, "rtx2070s"),
    ],
)
def test_infers_a_gpu_from_its_figures(
    capability: tuple[int, int], sm: int, bandwidth: float | None, memory: float, clock: float | None, expected: str
) -> None:
    found = identify(capability, sm, bandwidth, memory, clock)
    assert found.gpu is not None
    assert (found.gpu.id, found.basis, found.name) == (expected, "inferred", found.gpu.name)


def test_two_that_fit_equally_leave_it_unknown() -> None:
    # V100 SXM2 and PCIe differ in clock alone, which this source does not give
    found = identify((7, 0), 80, None, 34_084_028_416, None, "Tesla V100-DGXS-32GB")
    assert (found.gpu, found.name, found.basis, found.tensor_cores) == (None, "Tesla V100-DGXS-32GB", "reported", "yes")
    assert "v100-sxm2 and v100-pcie equally" in found.reason


def test_none_that_fits_leaves_it_unknown_but_not_its_tensor_cores() -> None:
    # an RTX 2060 Max-Q: 30 SMs like the RTX 2060, other memory and clock
    found = identify((7, 5), 30, 264_048_000_000, 6_222_839_808, 1_185_000)
    assert (found.gpu, found.name, found.basis, found.tensor_cores) == (None, None, None, "yes")
    assert "fits no GPU" in found.reason


def test_a_name_whose_sm_count_contradicts_it_is_a_variant() -> None:
    found = identify((8, 6), 70, 912e9, 12 * GIB * 0.98, None, "NVIDIA GeForce RTX 3080")
    assert (found.gpu, found.name, found.basis) == (None, "NVIDIA GeForce RTX 3080", "reported")


def test_a_reported_name_needs_no_figures() -> None:
    found = identify(None, None, None, None, name="Tesla T4")
    assert found.gpu is not None
    assert (found.gpu.id, found.basis, found.tensor_cores) == ("t4", "reported", "yes")


def test_too_few_figures_are_not_guessed_from() -> None:
    found = identify((8, 0), 108, None, None)
    assert found.gpu is None
    assert "too few figures" in found.reason


@pytest.mark.parametrize(
    ("capability", "name", "sm", "expected"),
    [
        ((6, 1), None, None, "no"),
        ((7, 0), None, None, "yes"),
        ((7, 5), "NVIDIA GeForce GTX 1650", None, "no"),
        ((7, 5), "NVIDIA GeForce GTX 1660 Ti", 24, "no"),
        ((7, 5), "NVIDIA T1000 8GB", None, "no"),
        ((7, 5), "Quadro T2000", None, "no"),
        ((7, 5), "GeForce MX450", None, "no"),
        ((7, 5), "Tesla T4", None, "yes"),
        ((7, 5), None, 14, "no"),
        ((7, 5), None, 24, "no"),
        ((7, 5), None, 30, "yes"),
        ((7, 5), None, None, "unknown"),
        ((12, 0), None, None, "yes"),
        (None, None, None, "unknown"),
    ],
)
def test_tensor_cores_by_capability_except_the_small_turings(
    capability: tuple[int, int] | None, name: str | None, sm: int | None, expected: str
) -> None:
    assert has_tensor_cores(capability, name, sm)[0] == expected


@given(
    gpu=st.sampled_from(load_gpus()),
    bandwidth=st.floats(0.985, 1.015),
    memory=st.floats(0.91, 1.0),
    clock=st.floats(0.98, 1.08),
)
def test_a_gpu_is_never_taken_for_another(gpu: Gpu, bandwidth: float, memory: float, clock: float) -> None:
    found = identify(
        gpu.compute_capability,
        gpu.sm,
        gpu.bandwidth_bytes_per_s * bandwidth,
        gpu.memory_bytes * memory,
        gpu.boost_mhz * 1e3 * clock,
    )
    same_figures = {"l40", "l40s"}  # L40 and L40S differ in clock by 1 %, the Quadro RTX 6000 is a TITAN RTX
    if gpu.id in same_figures | {"titan-rtx", "quadro-rtx6000-8000", "gh200", "h200-sxm", "v100-sxm2", "v100-pcie"}:
        return
    assert found.gpu in (gpu, None)
    assert found.tensor_cores == ("yes" if gpu.tensor_cores else "no")


@given(st.text(max_size=30))
def test_any_text_is_a_gpu_or_a_usage_error(text: str) -> None:
    try:
        assert find_gpu(text) in load_gpus()
    except UsageError as error:
        assert error.hint
