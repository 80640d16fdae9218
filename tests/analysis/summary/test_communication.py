"""The time of kernels that move data between GPUs, and how much of it no other kernel hides."""

from __future__ import annotations

import pytest

from tcprobe.analysis.context import Options
from tcprobe.analysis.flow import analyse
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import KERNELS
from tests.analysis.builders import FP32, TC, devices, launches, marks, profile, summary, table

NCCL = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
OLD = "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
US = 1000


def analysed(*rows: tuple[object, ...], options: Options | None = None) -> Profile:
    gpus = devices({"device": 0}, {"device": 1})
    return analyse(profile(launches(*rows), gpus, marks([0, 100 * US], 100 * US)), options)


def test_time_share_and_what_nothing_hides() -> None:
    """GPU 0: 40 us of NCCL, of which 10 to 20 beside a GEMM, and twice at once from 30 to 40: 30 - 10 - 0 alone.

    GPU 1: 10 us alone. Kernel time 20 + 40 + 10 + 30.
    """
    found = analysed(
        (TC, -1, 0, 0, 20 * US),
        (NCCL, -1, 0, 10 * US, 30 * US),
        (OLD, -1, 0, 30 * US, 10 * US),
        (NCCL, -1, 1, 150 * US, 10 * US, 1),
        (FP32, -1, 1, 160 * US, 30 * US, 1),
    )
    figures = summary(found)
    assert figures["communication_kernel_time_ns"]["value"] == 50 * US
    assert figures["communication_kernel_time_pct"]["value"] == pytest.approx(50.0)
    assert figures["communication_exposed_ns"]["value"] == 30 * US
    assert figures["communication_kernel_time_pct"]["basis"] == "name"
    assert figures["tc_kernel_time_pct"]["value"] == pytest.approx(20.0)
    assert found.screen is not None and found.screen.bar is not None
    assert found.screen.bar.ns("communication") > 0


def test_only_the_window_counts_and_kernels_of_other_steps_hide_all_the_same() -> None:
    rows = [(NCCL, -1, 0, 0, 10 * US), (NCCL, -1, 1, 100 * US, 10 * US), (TC, -1, 0, 95 * US, 9 * US)]
    figures = summary(analysed(*rows, (FP32, -1, 1, 120 * US, US), options=Options(iter_start=1, iter_stop=1)))
    assert figures["communication_kernel_time_ns"]["value"] == 10 * US
    assert figures["communication_exposed_ns"]["value"] == 6 * US


def test_without_communication_there_is_no_such_figure() -> None:
    assert not any("communication" in name for name in summary(analysed((TC, -1, 0, 0, US))))


def test_sums_without_times_of_launches_tell_the_share_alone() -> None:
    sums = [
        {"kernel": name, "calls": 1, "sum_ns": ns, "uses_tc": "unknown", "evidence": ""}
        for name, ns in ((TC, 95), (NCCL, 5))
    ]
    found = analyse(profile(table(KERNELS, sums), devices({"device": 0})))
    figures = summary(found)
    assert figures["communication_kernel_time_pct"]["value"] == pytest.approx(5.0)
    assert figures["communication_exposed_ns"]["value"] is None
    assert found.screen is not None and found.screen.bar is not None
    assert found.screen.bar.pct("communication") == pytest.approx(5.0)
