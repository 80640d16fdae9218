"""Files made for one kind of waiting each, read and analysed: every time can be added by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.fixtures.xplane.make import A100, CONFIG, Plane
from tests.fixtures.xplane.schema import XSpace

US = 1_000
MS = 1_000 * US
OP = "model/fc/MatMul:MatMul"


class Made:
    """A profile of one GPU whose kernels a thread of the executor launches, with a thread of Python beside it."""

    def __init__(self) -> None:
        self.space = XSpace(hostnames=["node1"])
        self.gpu, self.host = Plane(self.space, "/device:GPU:0", **A100), Plane(self.space, "/host:CPU")
        self.stream = self.gpu.line(13, "Stream #13(Compute)")
        self.copies = self.gpu.line(14, "Stream #14(MemcpyH2D)")
        self.python, self.executor = self.host.line(1, "python3"), self.host.line(2, "tf_Compute/2")
        self.kernels = 0

    def kernel(self, called_ns: int, start_ns: int, length_ns: int, thread: Any = None) -> None:
        self.kernels += 1
        known = {"correlation_id": self.kernels}
        self.host.event(thread or self.executor, "cuLaunchKernel", called_ns, 5 * US, **known)
        self.gpu.event(self.stream, "sgemm", start_ns, length_ns, tf_op=OP, kernel_details=CONFIG, **known)

    def says(self, name: str, start_ns: int, length_ns: int, thread: Any = None) -> None:
        self.host.event(thread or self.python, name, start_ns, length_ns)

    def call(self, start_ns: int, length_ns: int) -> None:
        """A call of the training function, as TensorFlow records it."""
        for name in ("train_function", "EagerLocalExecute: __inference_train_function_42"):
            self.says(name, start_ns, length_ns)

    def analysed(self, folder: Path) -> Profile:
        path = folder / "made.xplane.pb"
        path.write_bytes(self.space.SerializeToString(deterministic=True))
        return analyse(open_profile(path))


def waits(profile: Profile) -> list[tuple[str, str | None, int]]:
    (gpu,) = profile.active_gpus
    rows = b.rows(profile, "waits")
    assert sum(row["idle_ns"] for row in rows) == int(gpu["window_ns"] or 0) - int(gpu["union_ns"] or 0)
    return [(row["host_work"], row["host_op"], row["idle_ns"]) for row in rows]


def test_between_two_calls_nothing_recorded_is_outside_of_them(tmp_path: Path) -> None:
    # calls of 10 ms at 0 and 40; each launches 20 kernels of 0.4 ms back to back from 1 ms on: 2 ms of kernels early,
    # the GPU waits from 9 to 41. Of that 1 ms and 1 ms lie within the calls, where nothing is recorded.
    # Outside: metrics from 12 to 13 (an eager op that launches a kernel of 0.1 ms at 12.5), a flush from 20 to 28.
    made = Made()
    for begin in (0, 40 * MS):
        made.call(begin, 10 * MS)
        for n in range(20):
            made.kernel(begin + MS - 50 * US, begin + MS + n * 400 * US, 400 * US)
    made.says("EagerExecute: LogicalAnd", 12 * MS, MS)
    made.says("EagerLocalExecute: LogicalAnd", 12 * MS, MS)
    made.kernel(12 * MS + 450 * US, 12 * MS + 500 * US, 100 * US, made.python)
    made.says("FlushSummaryWriter:FlushSummaryWriter", 20 * MS, 8 * MS)
    profile = made.analysed(tmp_path)
    assert waits(profile) == [
        ("outside", None, 21 * MS),  # 10 to 12, 13 to 20, 28 to 40
        ("outside", "FlushSummaryWriter:FlushSummaryWriter", 8 * MS),
        ("unknown", "train_function", 2 * MS - 50 * US),  # 9 to 10, 40 to the call at 40.95
        ("outside", "EagerLocalExecute: LogicalAnd", 900 * US),
        ("launch", None, 50 * US),  # from the call of the first kernel of the second training call
    ]
    (item,) = (item for item in profile.advice if item.code == "TC301")
    assert (item.says.get("work"), item.says.get("host_op")) == ("outside", "FlushSummaryWriter:FlushSummaryWriter")
    assert item.says.get("named_pct") == pytest.approx(100 * 8 / 29.9)


def test_ops_that_other_threads_run_after_the_call_are_not_outside(tmp_path: Path) -> None:
    # the call ends at 2, an executor thread runs on until 8, then Python alone until 12
    made = Made()
    made.call(0, 2 * MS)
    made.kernel(0, MS, MS)
    made.kernel(50 * US, 2 * MS, MS)
    made.says("model/embed/Gather:GatherV2", 2 * MS, 6 * MS, made.executor)
    made.call(12 * MS - 10 * US, MS)
    made.kernel(12 * MS - 10 * US, 12 * MS, MS)
    assert waits(made.analysed(tmp_path)) == [
        ("op", "model/embed/Gather:GatherV2", 5 * MS),
        ("outside", None, 4 * MS - 10 * US),
        ("launch", None, 10 * US),
    ]


def test_a_recorded_frame_of_python_outside_the_call_tells_by_itself(tmp_path: Path) -> None:
    made = Made()
    for begin in (0, 10 * MS):
        made.call(begin, 2 * MS)
        made.kernel(begin, begin, 2 * MS)
    made.says("$callbacks.py:12 on_train_batch_end", 3 * MS, 5 * MS)
    assert waits(made.analysed(tmp_path)) == [
        ("python", "$callbacks.py:12 on_train_batch_end", 5 * MS),
        ("outside", None, 3 * MS),
    ]


def test_a_step_that_launching_holds_up(tmp_path: Path) -> None:
    # one call of 50 ms in which the executor launches a kernel of 10 us each 50 us: 1000 kernels, 40 us of waiting each
    made = Made()
    made.call(0, 50 * MS)
    made.says("ExecutorState::Process", 0, 50 * MS, made.executor)
    for n in range(1000):
        made.kernel(n * 50 * US, n * 50 * US + 5 * US, 10 * US)
    profile = made.analysed(tmp_path)
    assert waits(profile) == [("launch", None, 999 * 40 * US)]
    (item,) = (item for item in profile.advice if item.code == "TC301")
    assert (item.says.get("work"), item.concern.at_most_ns) == ("launch", 999 * 40 * US)


def test_the_executor_alone_is_no_launching_where_it_launches_nothing_for_long(tmp_path: Path) -> None:
    # the executor runs throughout; between kernels it takes 0.5 ms once and 3 ms once
    made = Made()
    made.call(0, 10 * MS)
    made.says("ExecutorState::Process", 0, 10 * MS, made.executor)
    for start in (0, MS + 500 * US, 5 * MS + 500 * US):
        made.kernel(start - 10 * US if start else 0, start, MS)
    assert waits(made.analysed(tmp_path)) == [
        ("executor", "ExecutorState::Process", 3 * MS),
        ("launch", "ExecutorState::Process", 500 * US),
    ]


def test_what_tensorflow_says_of_the_cost_of_cupti(tmp_path: Path) -> None:
    # between kernels the GPU waits from 1 to 5 ms, of which CUPTI flushes a buffer from 2 to 4
    made = Made()
    made.call(0, 10 * MS)
    made.kernel(0, 0, MS)
    made.kernel(5 * MS - 10 * US, 5 * MS, MS)
    made.gpu.event(made.gpu.line(0, "CUPTI overhead"), "Buffer Flush", 2 * MS, 2 * MS)
    assert waits(made.analysed(tmp_path)) == [
        ("profiler", "Buffer Flush", 2 * MS),
        ("unknown", "train_function", 2 * MS - 10 * US),
        ("launch", None, 10 * US),
    ]
