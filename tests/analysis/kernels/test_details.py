"""Waves of kernels, worked out by hand from tile, grid and configuration."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.analysis.kernels.details import Sizes, _size, blocks_per_sm, waves_of
from tcprobe.schema.columns import Row
from tcprobe.schema.tables import LAUNCH_CONFIGS, LAUNCHES
from tests.analysis.builders import devices, profile, rows, table

SGEMM = "volta_sgemm_128x64_nn"
HALF = "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn"
AMPERE = "ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_nn"
ODD = "cutlass_80_tensorop_f16_s16816gemm_f16_128x64_32x6_nn_align1"
T4 = Sizes((7, 5), 40)
A100 = Sizes((8, 0), 108)


def config(grid: str, block: str = "128,1,1", registers: int | None = 122, **shared: int | None) -> Row:
    return {
        "grid": grid, "block": block, "registers": registers,
        "static_shared_bytes": shared.get("static", 12_288), "dynamic_shared_bytes": shared.get("dynamic", 0),
    }  # fmt: skip


def test_registers_limit_the_blocks_of_an_sm() -> None:
    # 122 registers x 32 threads = 3,904, in units of 256: 4,096 a warp. A quarter of an SM has 16,384: 4 warps, 16 in
    # all; a block of 128 threads has 4 warps: 4 blocks. Shared memory would allow 65,536 // 12,288 = 5.
    assert blocks_per_sm(128, config("1,1,1"), (7, 5)) == 4


@pytest.mark.parametrize(
    ("given", "capability", "blocks"),
    [
        (config("1,1,1", static=32_768), (7, 5), 2),  # 64 KiB of shared memory
        (config("1,1,1", registers=32, static=0, dynamic=147_456), (8, 0), 1),  # 164 KiB, of each block 1 KiB reserved
        (config("1,1,1", registers=16, static=0), (7, 5), 8),  # 32 warps
        (config("1,1,1", registers=16, static=0), (8, 6), 12),  # 48 warps
    ],
)
def test_shared_memory_and_warps_limit_them_too(given: Row, capability: Any, blocks: int) -> None:
    assert blocks_per_sm(128, given, capability) == blocks


@pytest.mark.parametrize("missing", ["registers", "static_shared_bytes"])
def test_what_is_not_known_limits_nothing_for_sure(missing: str) -> None:
    given = {**config("1,1,1"), missing: None}
    given["dynamic_shared_bytes"] = None
    assert blocks_per_sm(128, given, (7, 5)) is None
    assert blocks_per_sm(128, config("1,1,1"), (6, 1)) is None


def test_waves_and_the_empty_share_of_the_last() -> None:
    found = waves_of(SGEMM, config("2,2,169"), T4)
    assert found is not None
    # 676 blocks, of which 4 x 40 run at once: 4.225 waves, which take the time of 5
    assert (found.blocks, found.blocks_per_sm, found.waves) == (676, 4, 4.225)
    assert found.empty == pytest.approx(0.155)
    assert found.outputs_at_most == 676 * 128 * 64  # 5,537,792: not more, and fewer if tiles are partly empty


def test_a_grid_that_fills_whole_waves_is_empty_nowhere() -> None:
    found = waves_of(SGEMM, config("8,40,1"), T4)
    assert found is not None
    assert (found.waves, found.empty) == (2.0, 0.0)


@pytest.mark.parametrize(
    "kernel",
    [
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
        "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x64_32x6_nn_align8_stream_k>(int)",
        "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
        "matmul_kernel_persistent",
        "void at::native::vectorized_elementwise_kernel<4, float>(int)",
    ],
)
def test_blocks_that_persist_and_kernels_without_a_tile_tell_nothing(kernel: str) -> None:
    assert waves_of(kernel, config("13,13,1"), A100) is None


def test_one_block_for_each_sm_may_persist() -> None:
    assert waves_of(AMPERE, config("108,1,1", dynamic=98_304, static=0), A100) is None
    assert waves_of(AMPERE, config("109,1,1", dynamic=98_304, static=0), A100) is not None


def test_dynamic_shared_memory_must_be_known_from_ampere_on() -> None:
    assert waves_of(AMPERE, config("109,1,1", dynamic=None), A100) is None
    assert waves_of(HALF, config("109,1,1", dynamic=None), T4) is not None


def run(*given: tuple[str, str, int]) -> Any:
    """Launches of (kernel, grid, length in us) one after the other on a V100."""
    configs = [config(grid) for _, grid, _ in given]
    launches = [
        {
            "device": 0, "stream": 7, "kernel": name, "start_ns": at * 10**6, "duration_ns": length * 1000,
            "op_id": -1, "config_id": at,
        }
        for at, (name, _, length) in enumerate(given)
    ]  # fmt: skip
    return analyse(profile(devices({}), table(LAUNCH_CONFIGS, configs), table(LAUNCHES, launches)))


def test_the_tail_is_time_over_all_configurations() -> None:
    # a V100 has 80 SMs: 320 blocks at once. 400 blocks are 1.25 waves: 37.5 % of 80 us; 640 are 2 waves: nothing.
    (row,) = rows(run((SGEMM, "400,1,1", 80), (SGEMM, "640,1,1", 50)), "kernels")
    assert row["tail_ns"] == pytest.approx(0.375 * 80_000)
    assert (row["waves"], row["blocks_per_sm"]) == (1.25, 4)  # of the costliest configuration


def test_of_one_unknown_configuration_the_tail_is_unknown() -> None:
    (row,) = rows(run((SGEMM, "400,1,1", 80), (SGEMM, "unknown", 50)), "kernels")
    assert row["tail_ns"] is None
    assert row["waves"] == 1.25


def test_advice_speaks_of_tensor_core_kernels_and_of_no_more_than_their_tail() -> None:
    found = run(("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "400,1,1", 800), (SGEMM, "400,1,1", 500))
    (item,) = [one for one in found.advice if one.code == "TC319"]
    assert item.concern.at_most_ns == pytest.approx(0.375 * 800_000)
    assert item.concern.bound == "full waves"


def test_a_misaligned_kernel_has_a_saving_in_time() -> None:
    # large odd products ran at 72.8 of 217.0 TFLOP/s on an A100 where both operands are contiguous along K: 33.5 %
    found = run((ODD, "400,1,1", 1000))
    (item,) = [one for one in found.advice if one.code == "TC320"]
    assert item.concern.at_most_ns == pytest.approx(1_000_000 * (1 - 72.8 / 217.0))
    assert (item.concern.bound, item.says.get("rate_pct")) == ("aligned rates", 34)


@pytest.mark.parametrize("text", ["9" * 80_000, f"{2**40},2,1", "", "1,x,1", None])
def test_a_grid_of_no_sizes_or_of_too_many_blocks_is_unknown(text: str | None) -> None:
    assert _size(text) is None
