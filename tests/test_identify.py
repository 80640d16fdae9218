"""Telling which GPU a profile ran on, by name and by figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.hardware import GIB, Gpu, find_gpu, load_gpus
from tcprobe.identify import has_tensor_cores, identify


@pytest.mark.parametrize(
    ("capability", "sm", "bandwidth", "memory", "clock", "expected"),
    [
        # figures as the device planes of real XSpace files, Kineto traces and Nsight Systems exports give them
        ((7, 5), 40, 320_064_000_000, 15_812_263_936, 1_590_000, "t4"),
        ((7, 0), 80, 898_048_000_000, 16_945_512_448, 1_530_000, "v100-sxm2"),
        ((6, 0), 56, 732_160_000_000, 17_071_734_784, 1_328_500, "p100"),
        ((8, 6), 82, 936_096_000_000, 25_438_126_080, 1_695_000, "rtx3090"),
        ((8, 0), 108, None, 42_297_524_224, None, "a100-sxm-40"),
        ((7, 5), 30, 264_048_000_000, 6_222_839_808, 1_185_000, "rtx2060-maxq"),
        ((6, 1), 20, 192_192_000_000, 7_981_694_976, 1_113_500, "p4"),
        # as TensorFlow logs them
        ((8, 6), 30, 336_048_000_000, 6_441_926_656, 1_702_000, "rtx3060-laptop"),
        ((8, 6), 30, 336_048_000_000, 6_441_926_656, 1_425_000, "rtx3060-laptop"),
        ((7, 5), 36, 384_064_000_000, 8_364_000_000, 1_185_000, "rtx2070-maxq"),
        ((7, 5), 36, 352_064_000_000, 8_364_000_000, 1_125_000, "rtx2070-maxq"),
        ((7, 2), 6, 70_974_000_000, 16_583_041_024, 1_109_000, "xavier-nx"),
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
    # these V100s differ in clock and bandwidth, which this source does not give
    found = identify((7, 0), 80, None, 34_084_028_416, None, "Tesla V100-DGXS-32GB")
    assert (found.gpu, found.name, found.basis, found.tensor_cores) == (None, "Tesla V100-DGXS-32GB", "reported", "yes")
    assert "v100-sxm2 and v100-pcie and v100-sxm3" in found.reason


def test_none_that_fits_leaves_it_unknown_but_not_its_tensor_cores() -> None:
    found = identify((7, 5), 31, 264_048_000_000, 6_222_839_808, 1_185_000)
    assert (found.gpu, found.name, found.basis, found.tensor_cores) == (None, None, None, "yes")
    assert "fits no GPU" in found.reason


def test_a_name_whose_sm_count_contradicts_it_is_a_variant() -> None:
    found = identify((8, 6), 69, 912e9, 12 * GIB * 0.98, None, "NVIDIA GeForce RTX 3080")
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
        ((7, 5), "NVIDIA CMP 30HX", None, "no"),
        ((7, 5), "NVIDIA CMP 40HX", None, "yes"),
        ((7, 5), "Tesla T4", None, "yes"),
        ((7, 5), None, 14, "no"),
        ((7, 5), None, 24, "no"),
        ((7, 5), None, 30, "yes"),
        ((7, 5), None, None, "unknown"),
        ((12, 0), None, None, "yes"),
        (None, None, None, "unknown"),
        (None, "Tesla V100-DGXS-16GB", None, "yes"),
        (None, "NVIDIA RTX 9999 Laptop GPU", None, "yes"),
        (None, "Tesla P100-PCIE-16GB", None, "unknown"),
        (None, "Quadro T2000", None, "no"),
    ],
)
def test_tensor_cores_by_capability_except_the_small_turings(
    capability: tuple[int, int] | None, name: str | None, sm: int | None, expected: str
) -> None:
    assert has_tensor_cores(capability, name, sm)[0] == expected


@pytest.mark.parametrize(
    ("name", "sm", "bandwidth", "memory", "clock", "expected"),
    [
        # a laptop's GPU has the desktop card's name: TensorFlow logs of both
        ("GeForce RTX 2060", 30, 336.05e9, 6_217_000_000, 1_200_000, "rtx2060-mobile"),
        ("GeForce RTX 2060", 30, 336.05e9, 6_442_450_944, 1_830_000, "rtx2060"),
        ("GeForce RTX 2060", 34, 336.05e9, 12.6e9, 1_650_000, "rtx2060-12"),
        ("NVIDIA GeForce RTX 3080", 70, 912e9, 12 * GIB * 0.98, None, "rtx3080-12"),
        ("NVIDIA GeForce RTX 3060 Ti", 38, 608e9, 8 * GIB * 0.98, None, "rtx3060ti-gddr6x"),
        ("Xavier", 8, None, 16_583_041_024, 1_377_000, "xavier-agx"),
        ("Orin", 16, 204.8e9, 65_893_269_504, 1_300_000, "orin-agx-64"),
        ("Orin", 8, 14.7e9, 16_136_011_776, 918_000, "orin-nx-16"),
        # without figures it is the card whose marketing name it is
        ("GeForce RTX 2070 SUPER", None, None, None, None, "rtx2070s"),
    ],
)
def test_figures_decide_between_gpus_of_one_name(
    name: str, sm: int | None, bandwidth: float | None, memory: float | None, clock: float | None, expected: str
) -> None:
    found = identify(None, sm, bandwidth, memory, clock, name)
    assert found.gpu is not None
    assert (found.gpu.id, found.basis, found.name) == (expected, "reported", name)


def test_two_of_one_name_that_run_at_one_clock_count_as_one() -> None:
    found = identify((8, 7), 8, None, 7_987_728_384, 765_000, "Orin")
    assert found.gpu is not None
    assert (found.name, found.gpu.name) == ("Orin", "Jetson Orin NX 8GB or Jetson Orin Nano 8GB")
    assert found.gpu.peaks["float16"] == pytest.approx(8 * 1024 * 2 * 765e6, rel=0.01)


def test_a_name_of_several_gpus_and_no_figures_is_unknown() -> None:
    found = identify((8, 7), None, None, None, None, "Orin")
    assert (found.gpu, found.name, found.basis, found.tensor_cores) == (None, "Orin", "reported", "yes")


def test_gpus_that_differ_in_board_alone_count_as_one() -> None:
    found = identify((8, 0), 108, 1555e9, 42_297_524_224, 1_410_000)
    assert found.gpu is not None
    assert (found.name, found.gpu.board) == ("A100 SXM4 40GB or A100 PCIe 40GB", None)
    assert found.gpu.peaks == find_gpu("a100-sxm-40").peaks
    assert "differ in no figure" in found.reason


def test_gpus_of_other_peaks_do_not() -> None:
    # a workstation's chip accumulates in float32 at twice the rate of the GeForce card with the same figures
    found = identify((8, 6), 48, 448e9, 16 * GIB * 0.98, 1_575_000)
    assert found.gpu is None
    assert "rtx3080-laptop and rtx-a4000 and rtx-a5000-laptop equally" in found.reason


@pytest.mark.parametrize("clock", [1_290_000, 1_560_000, 1_620_000])
def test_a_laptop_reaches_what_its_clock_allows(clock: int) -> None:
    found = identify((8, 6), 40, 448.06e9, 8.5e9, clock, "NVIDIA GeForce RTX 3070 Laptop GPU").gpu
    assert found is not None
    assert found.boost_mhz == clock / 1e3
    assert found.peaks["float16"] == pytest.approx(40 * 256 * 2 * clock * 1e3, rel=0.01)


def test_a_card_keeps_its_boost_clock() -> None:
    assert identify((7, 5), 30, 336e9, 6.4e9, 1_830_000, "GeForce RTX 2060").gpu is find_gpu("rtx2060")


def test_a_mig_instance_has_the_sms_that_the_source_gives() -> None:
    found = identify((9, 0), 16, None, 10e9, None, "NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    assert found.gpu is not None
    assert (found.gpu.sm, found.basis, found.tensor_cores) == (16, "reported", "yes")
    assert found.gpu.peaks["bfloat16"] == pytest.approx(989e12 * 16 / 132)
    unknown = identify((9, 0), None, None, None, None, "NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    assert (unknown.gpu, unknown.tensor_cores) == (None, "yes")


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("NVIDIA CMP 40HX", ((7, 5), 36, 448e9, 8 * GIB * 0.98, 1_650_000)),  # the figures of an RTX 2070
        ("NVIDIA GeForce RTX 5090 D", ((12, 0), 170, 1792e9, 32 * GIB * 0.98, 2_407_000)),
    ],
)
def test_a_card_that_is_slowed_down_is_not_taken_for_the_other(
    name: str, figures: tuple[tuple[int, int], int, float, float, int]
) -> None:
    assert identify(*figures).gpu is not None
    found = identify(*figures, name)
    assert (found.gpu, found.name, found.tensor_cores) == (None, name, "yes")


def test_an_unknown_gpu_keeps_its_tensor_cores() -> None:
    found = identify((13, 0), 300, 9e12, 300e9, 2_000_000, "NVIDIA Rubin")
    assert (found.gpu, found.name, found.tensor_cores) == (None, "NVIDIA Rubin", "yes")


@pytest.mark.parametrize("gpu", load_gpus(), ids=lambda gpu: gpu.id)
def test_every_gpu_is_found_by_each_of_its_names_and_its_figures(gpu: Gpu) -> None:
    for name in (gpu.id, gpu.name, *gpu.aliases):
        found = identify(
            gpu.compute_capability, gpu.sm, gpu.bandwidth_bytes_per_s, gpu.memory_bytes, gpu.boost_mhz * 1e3, name
        )
        assert found.basis == "reported"
        assert found.gpu is not None
        assert gpu.name in found.gpu.name.split(" or ")


@given(
    gpu=st.sampled_from(load_gpus()),
    bandwidth=st.floats(0.99, 1.01),
    memory=st.floats(0.91, 1.0),
    clock=st.floats(0.98, 1.03),
)
def test_a_gpu_is_never_taken_for_another(gpu: Gpu, bandwidth: float, memory: float, clock: float) -> None:
    found = identify(
        gpu.compute_capability,
        gpu.sm,
        gpu.bandwidth_bytes_per_s * bandwidth,
        gpu.memory_bytes * memory,
        gpu.boost_mhz * 1e3 * clock,
    )
    assert found.tensor_cores == ("yes" if gpu.tensor_cores else "no")
    if found.gpu is not None and found.gpu.id != gpu.id:
        assert gpu.name in found.gpu.name.split(" or ")
