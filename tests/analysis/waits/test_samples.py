"""Steps, gaps and autotuning of real profiles, each looked up in the file by hand."""

from __future__ import annotations

import pytest

from tcprobe.analysis import analyse
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tests.support import shared


def sample(name: str) -> Profile:
    return open_profile(shared(f"samples/xplane/{name}.xplane.pb"))


@pytest.mark.parametrize(
    ("name", "ms"),
    [
        ("tf24_v100_idle_0.07pct", 62185.023617),
        ("tf24_t4_autotuning_step", 3758.409873),
        ("tf24_t4_alexnet_fp32", 151.821257),
        ("tf24_v100_alexnet_fp32", 74.157233),
        ("tf24_p100_alexnet_fp32", 131.933446),
        ("tf25_turing_chess_fp32", 16.886634),
        ("tf25_turing_idle", 40.978801),
        ("tf25_turing_busy_88pct", 43.710340),
        ("tf22_8xv100_bert_step0", 668.866125),  # from the first of two GPUs to the last
    ],
)
def test_the_line_of_steps_says_how_long_a_step_is(name: str, ms: float) -> None:
    waiting = analyse(sample(name)).waiting
    assert waiting is not None
    assert (waiting.length, waiting.step_ns / 1e6) == ("marked step", pytest.approx(ms, abs=1e-5))


def test_a_gap_of_62_s_before_a_copy() -> None:
    (row,) = analyse(sample("tf24_v100_idle_0.07pct")).require("gaps").rows()
    assert (row["before"], row["host_work"], row["host_op"]) == (
        "MemcpyH2D 4096 B", "input", "IteratorGetNextOp::DoCompute",
    )  # fmt: skip
    assert 62e9 < float(row["duration_ns"] or 0) < 62.2e9
    assert float(row["share_pct"] or 0) > 99.9


@pytest.mark.parametrize(
    ("name", "worked"),
    [
        ("tf24_v100_alexnet_fp32", "copy"),
        ("tf24_t4_alexnet_fp32", "copy"),
        ("tf24_p100_alexnet_fp32", "outside"),  # 35 ms after the call, in which nothing was recorded
        ("tf25_turing_idle", "copy_call"),  # 17 ms in calls; the GPU copied for 0.04 ms in all
        ("tf24_t4_autotuning_step", "input"),
        ("jax08_mi300_attention", "outside"),  # 20.7 ms between two calls of transformer_block
        ("jax08_mi300_gemm", "python"),
    ],
)
def test_the_longest_gap(name: str, worked: str) -> None:
    row = next(analyse(sample(name)).require("gaps").rows())
    assert row["host_work"] == worked


def test_only_one_xspace_holds_autotuning() -> None:
    names = [path.name.partition(".xplane")[0] for path in shared("samples/xplane").glob("*.xplane.pb")]
    found = {name: analyse(sample(name)).tuning for name in names}
    tuned = {name: tuning for name, tuning in found.items() if tuning is not None}
    assert set(tuned) == {"tf24_t4_autotuning_step"}
    tuning = tuned["tf24_t4_autotuning_step"]
    assert (tuning.ops, tuning.kernels, tuning.worst_op, tuning.worst_calls) == (14, 621, "alex_net/conv2d_1/Relu", 58)
    assert 97.0 < tuning.share_pct < 97.1


def test_of_steps_that_the_profiler_hardly_recorded_nothing_tells_the_waiting() -> None:
    # dlprof_summary.csv: a step of 2864.09 ms; dlprof_iteration.csv: its kernels lie within its last 6 ms
    profile = analyse(open_profile(shared("samples/dlprof/pytorch_1.8")))
    row = next(profile.require("waits").rows())
    assert (row["host_work"], row["idle_ns"]) == ("unknown", pytest.approx(2_860.6e6, abs=1e5))
    assert [item.code for item in profile.advice] == ["TC302"]  # which says to profile later steps: TC301 need not


WITH_TIMES = (
    *(f"xplane/{name}.xplane.pb" for name in (
        "jax08_mi300_attention", "jax08_mi300_gemm", "tf22_8xv100_bert_step0", "tf24_p100_alexnet_fp32",
        "tf24_t4_alexnet_fp32", "tf24_t4_autotuning_step", "tf24_v100_alexnet_fp32", "tf24_v100_idle_0.07pct",
        "tf25_turing_busy_88pct", "tf25_turing_chess_fp32", "tf25_turing_idle",
    )),
    *(f"nsys/{name}.sqlite" for name in (
        "h100x2_bf16_after_nsys2026", "h100x2_bf16_before_nsys2026", "h100x2_fp32_ffma_nsys2026",
        "rtx3090_tensorrt_nsys2023.1", "rtx3090_tensorrt_nsys2023.4", "titanrtx_fp16_inference_nsys2022",
        *(f"v100_mpi_rank{rank}" for rank in (1, 2, 3, 4, 6)),
    )),
    "dlprof/pytorch_1.8", "nsys_stats/new_cuda_gpu_trace.csv", "nsys_stats/old_gputrace.csv",
)  # fmt: skip


@pytest.mark.parametrize("name", WITH_TIMES)
def test_what_the_gpu_waits_for_adds_up(name: str) -> None:
    profile = analyse(open_profile(shared(f"samples/{name}")))
    waits = profile.require("waits")
    assert profile.active_gpus
    for gpu in profile.active_gpus:
        mine = waits.numbers("device") == gpu["device"]
        assert int(waits.numbers("idle_ns")[mine].sum()) == int(gpu["window_ns"] or 0) - int(gpu["union_ns"] or 0)
        assert waits.numbers("share_pct")[mine].sum() == pytest.approx(100)


def test_a_call_that_copies_is_told_apart_from_the_copy() -> None:
    # the only MemcpyH2D of some size: 101 MB in 28.5 ms, of the file itself
    waits = analyse(sample("tf24_v100_alexnet_fp32")).require("waits")
    assert next((r["host_work"], r["idle_ns"]) for r in waits.rows()) == ("copy", pytest.approx(28.52e6, rel=1e-3))
    idle = analyse(sample("tf25_turing_idle")).require("waits").rows()
    spent = {row["host_work"]: row["idle_ns"] for row in idle if row["host_work"] == "copy" and not row["short"]}
    assert spent == {"copy": pytest.approx(39_000, rel=0.05)}


def test_cudnn_benchmark_of_pytorch_in_a_dlprof_report() -> None:
    profile = analyse(open_profile(shared("samples/dlprof/pytorch_1.8")))  # read_only_model_config: benchmark is on
    assert profile.tuning is not None
    assert (profile.tuning.ops, profile.tuning.kernels, profile.tuning.worst_calls) == (2, 46, 24)
    waiting = profile.waiting
    assert waiting is not None
    assert (waiting.length, waiting.step_ns) == ("reported", 2864091540.0)
    assert waiting.busy_ns == 296799.0  # of 308960 ns of kernels, some side by side


def spent(profile: Profile) -> dict[str, int]:
    """Return the waiting by what the host did, over all GPUs."""
    found: dict[str, int] = {}
    for row in profile.require("waits").rows():
        found[str(row["host_work"])] = found.get(str(row["host_work"]), 0) + int(row["idle_ns"] or 0)
    return found


@pytest.mark.parametrize(
    "name",
    [one.partition("/")[2].removesuffix(".xplane.pb") for one in WITH_TIMES[:11] if "bert" not in one],
)
def test_at_most_a_third_of_the_waiting_is_unknown_where_the_host_was_recorded(name: str) -> None:
    works = spent(analyse(sample(name)))
    assert 3 * works.get("unknown", 0) <= sum(works.values())


def test_of_a_capture_that_ends_before_the_first_call_does_the_reason_is_told() -> None:
    (item,) = (item for item in analyse(sample("tf22_8xv100_bert_step0")).advice if item.code == "TC301")
    assert (item.says.get("work"), item.says.get("recorded")) == ("unknown", True)


def test_launching_is_no_more_than_what_the_gaps_allow() -> None:
    # 10.5 ms after the call, 17.3 ms of copy calls and two gaps of 5.4 ms before one convolution are no launching
    works = spent(analyse(sample("tf25_turing_idle")))
    assert works["launch"] <= 7.3e6
    assert works["executor"] == pytest.approx(5.56e6, rel=0.01)


@pytest.mark.parametrize(
    ("name", "moved", "ns", "rate"),
    [("tf24_v100_alexnet_fp32", 100.7e6, 28.52e6, 3.53e9), ("tf25_turing_idle", 196.7e3, 34.4e3, 5.72e9)],
)
def test_what_the_gpu_copies(name: str, moved: float, ns: float, rate: float) -> None:
    row = next(row for row in analyse(sample(name)).require("copies").rows() if row["kind"] == "MemcpyH2D")
    found = [row[column] for column in ("size_bytes", "sum_ns", "bytes_per_s")]
    assert found == [pytest.approx(value, rel=0.005) for value in (moved, ns, rate)]


def test_a_gap_that_a_flush_of_the_profiler_fills() -> None:
    # PROFILER_OVERHEAD: 73069.651587 to 73075.664869 ms, on another thread; the gap lasts from 73069.107 to 73075.816
    profile = analyse(open_profile(shared("samples/nsys/h100x2_bf16_after_nsys2026.sqlite")))
    row = next(profile.require("gaps").rows())
    assert (row["host_work"], row["host_op"]) == ("profiler", "CUPTI Buffer flush")
    assert row["duration_ns"] == pytest.approx(6.71e6, rel=0.001)
