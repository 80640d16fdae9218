"""GPUs: the file's figures, and names as drivers report them."""

from __future__ import annotations

import csv
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.hardware import GIB, Board, Gpu, find_gpu, gpus_named, load_gpus, lookup_gpu, partition_of
from tests.support import shared


def test_every_gpu_has_a_source_and_a_float32_peak() -> None:
    gpus = load_gpus()
    assert len(gpus) == 210
    assert len({gpu.id for gpu in gpus}) == len(gpus)
    for gpu in gpus:
        assert gpu.source, gpu.id
        assert gpu.evidence in ("verified", "formula"), gpu.id
        assert gpu.peak_flop_per_s("float32"), gpu.id
        assert gpu.board in get_args(Board), gpu.id
        assert re.fullmatch(r"G[PVAHB]\d\d\w|TU\d{3}|AD\d{3}", gpu.chip), gpu.id
        assert gpu.tensor_cores == (gpu.peak_flop_per_s("fp16") is not None), gpu.id


def test_figures_are_those_of_the_reference() -> None:
    with shared("reference/gpus.csv").open(encoding="utf-8", newline="") as file:
        reference = {row["id"]: row for row in csv.DictReader(file)}
    assert set(reference) <= {gpu.id for gpu in load_gpus()}
    for gpu in map(find_gpu, reference):
        row = reference[gpu.id]
        assert (gpu.sm, gpu.boost_mhz) == (int(row["sm"]), int(row["boost_mhz"]))
        assert gpu.bandwidth_bytes_per_s == pytest.approx(float(row["mem_bw_gbs"]) * 1e9)
        assert gpu.memory_bytes == int(float(row["mem_gb"]) * GIB)
        half = row["fp16_tc_fp32acc_tflops"]
        assert gpu.peak_flop_per_s("float16") == (float(half) * 1e12 if half else None)


FMA: dict[tuple[int, int], int] = {(7, 0): 512, (7, 2): 512, (7, 5): 512, (8, 0): 1024, (8, 7): 1024} | {
    **dict.fromkeys([(8, 6), (8, 9), (12, 0), (12, 1)], 512),
    (9, 0): 2048,
    (10, 0): 4096,
    (10, 3): 4096,
    (11, 0): 4096,
}
"""Float16 multiply-adds of an SM's Tensor Cores in a clock, by compute capability."""
CORES = {(6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
"""Float32 cores of an SM where it has not 128."""
HALF = {"a10g", "l40", "l20", "mx570"}
"""Halve the rate with accumulation in float32, as every GeForce RTX does."""
SLOWED = {"h20"}
"""Slowed down on purpose: far below what SMs and clock give."""


def formula(gpu: Gpu, dtype: str) -> float:
    """Return SMs x FMA per clock and SM x 2 x clock."""
    half = 0.5 if gpu.name.startswith("GeForce RTX") or gpu.id in HALF else 1.0
    fma = FMA[gpu.compute_capability] * half if dtype == "float16" else CORES.get(gpu.compute_capability, 128)
    return gpu.sm * fma * 2 * gpu.boost_mhz * 1e6


@pytest.mark.parametrize("gpu", load_gpus(), ids=lambda gpu: gpu.id)
def test_peaks_follow_from_sms_and_clock(gpu: Gpu) -> None:
    if gpu.id in SLOWED:
        assert gpu.peaks["float16"] < 0.5 * formula(gpu, "float16")
        return
    assert gpu.sm > 0
    # the clock of float32 is a tenth above that of Tensor Cores on some modules: H100 NVL, B200, B300
    assert gpu.peaks["float32"] == pytest.approx(formula(gpu, "float32"), rel=0.05 if gpu.sm < 110 else 0.2)
    if gpu.tensor_cores:
        assert gpu.peaks["float16"] == pytest.approx(formula(gpu, "float16"), rel=0.05)


@pytest.mark.parametrize("gpu", [gpu for gpu in load_gpus() if gpu.tensor_cores], ids=lambda gpu: gpu.id)
def test_every_dtype_has_the_rate_of_its_width(gpu: Gpu) -> None:
    half, capability = gpu.peaks["float16"], gpu.compute_capability
    assert ("bfloat16" in gpu.peaks) == (capability >= (8, 0))
    assert ("tf32" in gpu.peaks) <= (capability >= (8, 0))
    assert ("float8" in gpu.peaks) == (capability >= (8, 9))
    for dtype, factor in {"bfloat16": 1, "tf32": 0.5, "float8": 2}.items():
        if dtype in gpu.peaks:
            assert gpu.peaks[dtype] == pytest.approx(half * factor, rel=0.02)


@pytest.mark.parametrize("gpu", load_gpus(), ids=lambda gpu: gpu.id)
def test_memory_and_clocks_are_plausible(gpu: Gpu) -> None:
    assert gpu.memory_bytes in gpu.memory_variants
    assert gpu.bandwidth_bytes_per_s in gpu.bandwidth_variants
    assert max(gpu.bandwidth_variants) <= 3 * min(gpu.bandwidth_variants)
    assert 2 <= gpu.bandwidth_bytes_per_s / (gpu.sm * gpu.boost_mhz * 1e6) <= 40  # bytes for an SM in a clock
    low, high = gpu.clocks_mhz
    assert 300 <= low <= gpu.boost_mhz <= high <= 2700
    assert 0.25 * 2**20 <= gpu.l2_bytes <= 160 * 2**20


def test_no_two_rows_are_the_same_gpu() -> None:
    ids = [gpu.id for gpu in load_gpus()]
    names = [gpu.name for gpu in load_gpus()]
    figures = [
        (
            g.chip,
            g.board,
            g.sm,
            g.clocks_mhz,
            g.bandwidth_bytes_per_s,
            g.memory_bytes,
            g.peaks["fp32"],
            g.peaks.get("fp16"),
        )
        for g in load_gpus()
    ]
    assert len(set(ids)) == len(set(names)) == len(set(figures)) == len(ids)


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
        ("Tesla P4", "p4"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "rtx3060-laptop"),
        ("NVIDIA GeForce RTX 3070 Laptop GPU", "rtx3070-laptop"),
        ("GeForce RTX 2060 with Max-Q Design", "rtx2060-maxq"),
        ("Quadro RTX 5000 with Max-Q Design", "quadro-rtx5000-maxq"),
        ("NVIDIA RTX 5000 Ada Generation Laptop GPU", "rtx5000ada-laptop"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtxpro6000bw-workstation"),
        ("NVIDIA A800-SXM4-80GB", "a100-sxm-80"),
        ("NVIDIA T4G", "t4"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA GH200 480GB", "gh200-96"),
        ("NVIDIA GH200 144G HBM3e", "gh200"),
        ("NVIDIA Thor", "thor"),
        ("NVIDIA GB10", "gb10"),
        ("NVIDIA GeForce RTX 3080", "rtx3080"),  # the card of this very name, not the one of 12 GB
    ],
)
def test_finds_a_gpu_by_the_name_a_driver_reports(reported: str, expected: str) -> None:
    assert find_gpu(reported).id == expected


@pytest.mark.parametrize(
    "other", ["NVIDIA GeForce RTX 5090 D", "NVIDIA A100-PG509-200", "NVIDIA A100X", "NVIDIA CMP 40HX", "Orin", ""]
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
            assert gpu in gpus_named(name)
        assert find_gpu(gpu.id) is find_gpu(gpu.name) is gpu


def test_a_name_of_several_gpus_is_an_error_that_names_them() -> None:
    with pytest.raises(UsageError, match="the name of several") as caught:
        find_gpu("Orin")
    assert caught.value.hint is not None
    assert "orin-agx-64" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "gpu", "sm", "gib", "share"),
    [
        # nvidia-smi mig -lgip and the MIG user guide: slices of 14 SMs, eighths of the memory
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm-40", 14, 5, 1 / 8),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "a100-sxm-80", 42, 40, 4 / 8),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "a100-sxm-40", 14, 20, 4 / 8),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", "a100-sxm-80", 14, 10, 1 / 8),
        ("NVIDIA A30 MIG 2g.12gb", "a30", 28, 12, 4 / 8),
        ("A100-SXM4-40GB-MIG-7g.40gb", "a100-sxm-40", 98, 40, 1.0),
        ("a100-sxm-80-mig-3g.40gb", "a100-sxm-80", 42, 40, 4 / 8),
        ("GRID A100D-1-10C", "a100-pcie-80", 14, 10, 1 / 8),
    ],
)
def test_a_mig_instance_is_its_share_of_a_gpu(name: str, gpu: str, sm: int, gib: int, share: float) -> None:
    part, whole = find_gpu(name), find_gpu(gpu)
    assert (part.sm, part.memory_bytes, part.chip, part.board) == (sm, gib * GIB, whole.chip, whole.board)
    assert part.bandwidth_bytes_per_s == pytest.approx(whole.bandwidth_bytes_per_s * share)
    assert part.peaks["float16"] == pytest.approx(whole.peaks["float16"] * sm / whole.sm)
    assert find_gpu(part.id) == part


def test_a_mig_instance_of_unknown_size_is_no_gpu() -> None:
    # a slice of an H100 has 16 SMs, or 18: 132 are no multiple of seven
    assert lookup_gpu("NVIDIA H100 80GB HBM3 MIG 2g.20gb") is None
    with pytest.raises(UsageError, match="how many SMs"):
        find_gpu("NVIDIA H100 80GB HBM3 MIG 2g.20gb")
    part = partition_of("NVIDIA H100 80GB HBM3 MIG 2g.20gb")
    assert part is not None
    cut = part.cut(32)
    assert cut is not None
    assert cut.peaks["float16"] == pytest.approx(989e12 * 32 / 132)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("GRID T4-8Q", "t4"),
        ("GRID V100DX-32C", "v100-sxm2"),
        ("GRID A100-10C", "a100-pcie-40"),
        ("GRID A100DX-80C", "a100-sxm-80"),
        ("NVIDIA A10-24Q", "a10"),
        ("NVIDIA L40S-48Q", "l40s"),
        ("NVIDIA H100XM-80C", "h100-sxm"),
        ("NVIDIA RTX6000-Ada-48Q", "rtx6000ada"),
        ("GRID RTX8000-48Q", "quadro-rtx6000-8000"),
    ],
)
def test_a_virtual_gpu_is_the_board_with_less_memory(name: str, gpu: str) -> None:
    virtual, whole = find_gpu(name), find_gpu(gpu)
    assert (virtual.id, virtual.sm, virtual.peaks) == (whole.id, whole.sm, whole.peaks)
    assert virtual.memory_bytes <= whole.memory_bytes


@pytest.mark.parametrize("other", ["Voodoo MIG 1g.5gb", "GRID K120Q", "NVIDIA Nothing-8Q", "A100-SXM4-40GB"])
def test_other_names_describe_no_part(other: str) -> None:
    assert partition_of(other) is None


@given(st.text(max_size=30))
def test_any_text_is_a_gpu_or_a_usage_error(text: str) -> None:
    try:
        assert find_gpu(text) in load_gpus()
    except UsageError as error:
        assert error.hint
