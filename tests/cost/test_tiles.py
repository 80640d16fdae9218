"""Tiles, waves, split-K, roofline: one product at a time, worked by hand."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from tcprobe.cost.constants import Rate, shipped
from tcprobe.cost.fit import estimates, sample_of
from tcprobe.cost.tiles import Chip, Work, compute_bound, estimate
from tcprobe.hardware import find_gpu

# 100 SMs of 1,000 flop/ns each, one tile, nothing hidden, nothing smooth, no contraction split.
RATE = Rate(
    emax=1.0,
    bwf=1.0,
    t0_ns=0.0,
    split_ns=1e9,  # never worth it
    fill_k=0.0,
    l2_speed=1.0,
    l2_share=1.0,
    quantised=1.0,
    sharp=20.0,
    tiles=((128, 128, 1.0),),
    spread=(1.0, 1.0, 1.0),
)
CHIP = Chip(RATE, flop_per_ns=100_000.0, bytes_per_ns=1e9, sm=100, l2_bytes=2**20)
TILE_NS = 2 * 128 * 128 * 640 / 1000  # 20,971.52


def work(m: int, n: int, k: int, batch: int = 1) -> Work:
    return Work(m, n, k, batch, 2.0 * batch * (m * k + k * n + m * n))


def chip(**changed: object) -> Chip:
    return replace(CHIP, rate=replace(RATE, **changed))  # type: ignore[arg-type]


def test_one_full_wave() -> None:
    found = estimate(work(1280, 1280, 640), CHIP)  # 10 x 10 tiles on 100 SMs
    assert found.ns == pytest.approx(TILE_NS)
    assert (found.tile, found.waves) == ("128x128", 1.0)


def test_one_row_more_starts_a_second_wave() -> None:
    found = estimate(work(1281, 1280, 640), CHIP)  # 11 x 10 tiles
    assert found.ns == pytest.approx(2 * TILE_NS)
    assert found.waves == pytest.approx(1.1)


def test_a_part_of_the_last_wave_is_hidden() -> None:
    # half of 2 whole waves and half of 1.1
    assert estimate(work(1281, 1280, 640), chip(quantised=0.5)).ns == pytest.approx(1.55 * TILE_NS)


def test_a_part_of_the_contraction_counts_whole_and_the_pipeline_is_filled() -> None:
    # 641 elements are 11 steps of 64; filling is worth another 96
    assert estimate(work(1280, 1280, 641), chip(fill_k=96.0)).ns == pytest.approx(TILE_NS * (704 + 96) / 640)


def test_a_long_contraction_of_one_tile_is_split() -> None:
    # 64 parts of 6,400 on 64 SMs; each partial sum of 4 bytes is written and read: 128 * 128 * 64 * 8 bytes
    found = estimate(work(128, 128, 409_600), replace(chip(split_ns=500.0), bytes_per_ns=1e6))
    assert found.tile == "128x128/64"
    assert found.ns == pytest.approx(TILE_NS * 10 + 500 + 128 * 128 * 64 * 8 / 1e6)


def test_a_short_contraction_is_not_split() -> None:
    assert estimate(work(128, 128, 255), chip(split_ns=0.0)).tile == "128x128"
    assert estimate(work(128, 128, 256), chip(split_ns=0.0)).tile == "128x128/2"


def test_the_better_of_two_tiles_is_taken() -> None:
    two = chip(tiles=((128, 128, 1.0), (64, 64, 0.5)))
    assert estimate(work(64, 64, 640), two).tile == "64x64"  # half the rate on a quarter of the work
    assert estimate(work(128, 128, 255), two).tile == "64x64"  # four on four SMs
    assert estimate(work(12800, 12800, 640), two).tile == "128x128"


def test_a_product_of_one_row_waits_for_memory() -> None:
    found = estimate(work(1, 4096, 4096), replace(chip(tiles=((16, 64, 1.0),)), bytes_per_ns=1000.0))
    assert found.ns == pytest.approx(2 * (4096 + 4096**2 + 4096) / 1000, rel=0.01)
    assert found.memory_ns > found.compute_ns


def test_what_fits_the_cache_comes_faster_and_what_is_twice_as_large_does_not() -> None:
    cached = replace(chip(l2_speed=4.0), bytes_per_ns=1.0)
    small, large = Work(8, 8, 8, 1, 2.0**20), Work(8, 8, 8, 1, 2.0**21)
    assert estimate(small, cached).memory_ns == pytest.approx(2**20 / 4)
    assert estimate(large, cached).memory_ns == pytest.approx(2**21)
    between = estimate(Work(8, 8, 8, 1, 1.5 * 2**20), cached).memory_ns  # half of it resident
    assert between == pytest.approx(1.5 * 2**20 * (0.5 + 0.5 / 4))


def test_multiplications_of_a_batch_share_the_waves() -> None:
    assert estimate(work(128, 128, 640, batch=100), CHIP).ns == pytest.approx(TILE_NS)
    assert estimate(work(128, 128, 640, batch=101), CHIP).ns == pytest.approx(2 * TILE_NS)


def test_a_round_of_the_main_loop_may_be_shorter() -> None:
    assert estimate(work(1280, 1280, 641), chip(step_k=8)).ns == pytest.approx(TILE_NS * 648 / 640)


def test_a_tile_of_a_batched_product_takes_no_less_than_a_short_contraction() -> None:
    short = chip(step_k=8, fill_k=32.0, batched_k=64.0)
    assert estimate(work(128, 128, 8, batch=100), short).ns == pytest.approx(TILE_NS / 10)
    assert estimate(work(128, 128, 8, batch=1), short).ns == pytest.approx(TILE_NS * 40 / 640)
    assert estimate(work(128, 128, 640, batch=100), short).ns == pytest.approx(TILE_NS * 672 / 640)


def test_penalties_slow_arithmetic_and_memory_apart() -> None:
    assert estimate(work(1280, 1280, 640), CHIP, compute=0.4).ns == pytest.approx(TILE_NS / 0.4)
    slow = replace(CHIP, bytes_per_ns=1.0)
    aligned, unaligned = estimate(work(1, 4096, 4096), slow), estimate(work(1, 4096, 4096), slow, memory=0.5)
    assert unaligned.ns == pytest.approx(2 * aligned.ns)


@pytest.mark.parametrize("gpu", sorted(shipped()))
def test_the_fit_times_what_ships(gpu: str) -> None:
    pytest.importorskip("numpy")
    sizes, found = random.Random(4), find_gpu(gpu)
    works = [work(*(int(2 ** sizes.uniform(0, 15)) for _ in "mnk"), batch=sizes.choice((1, 1, 7))) for _ in range(300)]
    for family, rate in shipped()[gpu].rates.items():
        peak = (found.peaks.get("float16") or found.peaks["float32"]) / 1e9
        batched = replace(rate, batched_k=96.0)
        known = Chip(batched, peak, found.bandwidth_bytes_per_s / 1e9, found.sm, found.l2_bytes)
        one_by_one = [estimate(w, known).ns for w in works]
        assert estimates(sample_of(works, one_by_one), known) == pytest.approx(one_by_one, rel=1e-9), family


def test_how_far_arithmetic_bounds_a_product() -> None:
    # 128^3: 4.2 Mflop are 41.9 ns at 100,000 flop/ns, 98,304 bytes as long at 2,343.75 bytes/ns
    square, balance = work(128, 128, 128), 98_304 / 41.94304
    shares = [compute_bound(square, replace(CHIP, bytes_per_ns=balance * f)) for f in (2, 1, 0.75, 0.5, 0.1)]
    assert shares == pytest.approx([1.0, 1.0, 0.5, 0.0, 0.0])
