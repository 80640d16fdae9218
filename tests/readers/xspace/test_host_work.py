"""What the names of host events tell, and which of them are kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tcprobe.readers.host_work import KINDS, LEAST_NS, SHORTEST_GAP_NS, Stretches, host_work, stretches
from tcprobe.readers.xspace.gpu import NONE, DeviceEvents
from tcprobe.readers.xspace.host import HostEvents
from tcprobe.readers.xspace.xplane import read
from tcprobe.schema.waits import HostWork
from tests.fixtures.gpu_run.make import PROFILE, load
from tests.fixtures.gpu_run.variants import WAITS, busy

FAR = 1 << 62
GAP = SHORTEST_GAP_NS


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("IteratorGetNextOp::DoCompute", "input"),
        ("IteratorGetNextAsOptionalOp::DoCompute", "input"),
        ("IteratorGetNext:IteratorGetNext", "input"),
        ("EagerLocalExecute: IteratorGetNext", "input"),
        ("MultiDeviceIteratorGetNextFromShard:MultiDeviceIteratorGetNextFromShard", None),  # ahead, for one GPU
        ("$dataloader.py:630 __next__", "input"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "input"),
        ("cuModuleLoadData", "compile"),
        ("cudaGraphLaunch", "launch"),
        ("MPI_Allreduce", "communicate"),
        ("MPI_Init", None),
        ("nccl:all_to_all", "communicate"),
        ("cudaFree", None),  # cudaFree(0) is how programs start CUDA
        ("Iterator::Model::Prefetch", None),  # ahead of the step, or inside GetNext
        ("PrefetchProduce", None),
        ("IteratorGetNext/_3:_Send", "copy_call"),
        ("cond/then/_48/OptionalGetValue/_100:_HostRecv", "copy_call"),
        ("MemcpyH2D", "copy_call"),
        ("MemcpyD2D", None),
        ("hipMemcpyHtoDAsync", "copy_call"),
        ("cuMemcpyDtoDAsync", None),
        ("EagerCopyToDeviceAndAddCacheKey", "copy_call"),
        ("DevicePut", "copy_call"),
        ("PjRtStreamExecutorClient::LinearizeHostBufferInto", "copy_call"),
        ("PjRtStreamExecutorClient::Compile", "compile"),
        ("XlaCompile", "compile"),
        ("XlaPass:#name=fusion#", "compile"),
        ("$compiler.py:237 backend_compile", "compile"),
        ("CompiledFunction", None),
        ("cuStreamSynchronize", "synchronise"),
        ("BlockUntilReady", "synchronise"),
        ("BaseCollectiveExecutor::ExecuteAsync", "communicate"),
        ("ExecutorState::Process", "launch"),
        ("GatherV2:GatherV2", "launch"),
        ("model/fc/MatMul:MatMul", "launch"),
        ("EagerLocalExecute: LogicalAnd", "launch"),
        ("EagerLocalExecute: __inference_train_function_1918", None),  # lasts as long as the step, whatever happens
        ("PjitFunction(add)", "launch"),
        ("$train.py:12 main", "python"),
        ("PythonRefManager::CollectGarbage", "python"),
        ("train_function", None),
        ("tcprobe_step", None),
        ("void Eigen::internal::EigenMetaKernel<float>(float*)", None),
    ],
)  # fmt: skip
def test_names(name: str, work: str | None) -> None:
    assert host_work(name) == work


@pytest.mark.parametrize("work", [work for work in WAITS if work != "unknown"])
def test_each_kind_of_wait_that_is_made_is_known(work: HostWork) -> None:
    assert work in {host_work(name) for name in WAITS[work]}


def idle(gpus: list[DeviceEvents]) -> Stretches:
    return stretches([(events.start_ns, events.duration_ns) for events in gpus])


def kernels(*spans: tuple[int, int]) -> DeviceEvents:
    start, length = (np.array([s[i] for s in spans], np.int64) for i in (0, 1))
    none = np.full(len(spans), NONE)
    return DeviceEvents(none, start, length, none, none, none, none, none, ["k"], [], [])


def test_stretches_without_a_kernel() -> None:
    found = idle([kernels((5 * GAP, 10), (0, GAP), (GAP + 5, 10), (GAP, 50 + GAP))])
    assert found.start_ns.tolist() == [-FAR, 2 * GAP + 50, 5 * GAP + 10]
    assert found.end_ns.tolist() == [0, 5 * GAP, FAR]


def test_stretches_of_any_gpu_count_once() -> None:
    found = idle([kernels((0, GAP), (3 * GAP, GAP)), kernels((GAP, GAP), (2 * GAP, GAP)), kernels()])
    # the first waits from GAP to 3 GAP, the second before GAP and after 3 GAP
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([-FAR], [FAR])
    assert len(idle([]).start_ns) == 0


def test_what_lasts_for_half_of_a_stretch_explains_it() -> None:
    """Stretches from 2 to 4, 6 to 8 and, as events last until 12, from 10 to 12 GAPs."""
    found = idle([kernels((0, 2 * GAP), (4 * GAP, 2 * GAP), (8 * GAP, 2 * GAP))])
    spans = [(0, 12), (2, 3), (3, 4), (2.5, 3.4), (3.5, 8), (1, 2), (8, 10), (10, 11), (10, 10.9), (4, 6)]
    start, end = (np.array([round(span[at] * GAP) for span in spans], np.int64) for at in (0, 1))
    explained = [span for span, told in zip(spans, found.explained(start, end).tolist(), strict=True) if told]
    assert explained == [(0, 12), (2, 3), (3, 4), (3.5, 8), (10, 11)]
    assert not len(found.explained(start[:0], end[:0])) and not idle([]).explained(start, end).any()


def test_only_long_events_that_tell_something_and_meet_a_stretch_are_kept() -> None:
    events = HostEvents(idle([kernels((0, 5 * GAP), (7 * GAP, 5 * GAP), (12 * GAP + 1, GAP))]))
    start = np.array([6 * GAP, 6 * GAP, 6 * GAP, GAP, 5 * GAP - LEAST_NS, 5 * GAP - LEAST_NS, -9 * GAP])
    length = np.array([LEAST_NS, LEAST_NS - 1, GAP, GAP, LEAST_NS, LEAST_NS + 1, GAP])
    work = np.array([0, 0, -1, 0, 0, 0, 0], np.int8)
    events.add(7, np.arange(7), work, start, length)
    thread, code, _, begun, _ = events.columns()
    assert (code.tolist(), begun.tolist()) == ([0, 5, 6], start[[0, 5, 6]].tolist())
    assert thread.tolist() == [7, 7, 7]


def test_python_counts_in_threads_that_call_the_framework_alone() -> None:
    events = HostEvents(idle([kernels((0, GAP), (9 * GAP, GAP))]))
    python, copy = (np.array([KINDS.index(work)], np.int8) for work in ("python", "copy_call"))
    for thread, work in ((1, python), (2, python), (2, copy)):
        events.add(thread, np.zeros(1, np.int64), work, np.array([2 * GAP]), np.array([GAP]))
    assert events.columns()[0].tolist() == [1, 2, 2]
    events.callers.add(1)
    assert events.columns()[0].tolist() == [1, 2]
    assert events.columns()[2].tolist() == [python[0], copy[0]]


@pytest.mark.parametrize("work", WAITS)
def test_events_of_a_file(tmp_path: Path, work: HostWork) -> None:
    run = load()
    busy(run, 5, work)
    rows = list(read([run.write(tmp_path) / PROFILE]).require("host_events").rows())
    told = {name: host_work(name) for name in WAITS[work] if host_work(name)}
    found = Counter((row["name"], row["work"]) for row in rows if row["name"] in told)
    assert set(found) == set(told.items())
    each = 200 if work == "launch" else 1  # of which the first overlap the last kernels of the step before
    assert all(0.99 * 5 * each <= count <= 5 * each for count in found.values())
