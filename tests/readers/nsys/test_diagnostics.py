"""What Nsight Systems says of its own recording, and what it costs: each note and wait worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.analysis import analyse
from tests.analysis import builders as b
from tests.readers.nsys.made import Made
from tests.readers.nsys.test_recording import codes, read, values

MS = 1_000_000


def test_what_the_profiler_says_is_noted_once(tmp_path: Path) -> None:
    made = Made()
    made.range("a", 0, 10)
    made.diagnostic(1, "Process 4711 was launched by the profiler.")
    made.diagnostic(1, "Number of CUDA events collected: 12.")
    made.diagnostic(1, "CUDA profiling might have not been started correctly.")
    made.diagnostic(2, "Not all  NVTX events\nmight have been collected.")
    for _ in range(2):
        made.diagnostic(3, "The installed NVIDIA driver is not supported.")
    said = [(n.code, n.level, n.message) for n in read(made, tmp_path).metadata.notes if n.code.startswith("profiler-")]
    assert said == [
        ("profiler-warning", "warning", "the profiler says: CUDA profiling might have not been started correctly."),
        ("profiler-warning", "warning", "the profiler says: Not all NVTX events might have been collected."),
        ("profiler-error", "error", "the profiler says: The installed NVIDIA driver is not supported."),
    ]


@pytest.mark.parametrize(
    ("kinds", "code", "used"),
    [
        (["NvtxEvents"], "cuda-not-traced", None),
        (["NvtxEvents", "Cuda"], "no-kernels", False),
        ([], "no-kernels", False),  # the export does not say
    ],
)
def test_without_kernels_it_is_said_whether_cuda_was_traced(
    tmp_path: Path, kinds: list[str], code: str, used: bool | None
) -> None:
    made = Made()
    made.range("a", 0, 10)
    for kind in kinds:
        made.captured("CAPTURE_EVENT_TYPE", kind)
    profile = read(made, tmp_path)
    assert code in codes(profile) and profile.metadata.gpu_used is used
    assert ("or nsys did not trace CUDA" in codes(profile).get("no-kernels", "")) is (not kinds)


def test_calls_without_a_kernel_are_counted(tmp_path: Path) -> None:
    made = Made()
    made.call(0, 10, 1)
    made.range("a", 0, 10)
    (note,) = (n for n in read(made, tmp_path).metadata.notes if n.code == "no-kernels")
    assert "but 1 calls of CUDA" in note.message and note.level == "warning"


def test_ranges_are_listed_without_a_kernel(tmp_path: Path) -> None:
    made = Made()
    for start, length in ((0, 10), (100, 30)):
        made.range("step", start, start + length)
    made.range("load", 200, 205, domain="data")
    rows = b.rows(analyse(read(made, tmp_path)), "range_times")
    assert [
        (r["domain"], r["name"], r["calls"], r["sum_ns"], r["mean_ns"], r["min_ns"], r["max_ns"]) for r in rows
    ] == [
        (None, "step", 2, 40, 20.0, 10, 30),
        ("data", "load", 1, 5, 5.0, 5, 5),
    ]


def test_what_the_profiler_takes_between_kernels_is_its_own(tmp_path: Path) -> None:
    # the GPU waits from 1 to 9 ms; another thread flushes from 2 to 5, the driver compiles from 6 to 7,
    # the command buffer is full from 7 to 8
    made = Made()
    made.launch("a", 0, 10, MS)
    made.launch("b", 9 * MS - 10, 9 * MS, 10 * MS)
    made.overhead("CUPTI Buffer flush", 2 * MS, 5 * MS, tid=99)
    made.overhead("Driver Compiler", 6 * MS, 7 * MS)
    made.overhead("Command Buffer Full", 7 * MS, 8 * MS)
    profile = read(made, tmp_path)
    assert values(profile, "host_events", "work", "name") == [
        ("profiler", "CUPTI Buffer flush"),
        ("compile", "Driver Compiler"),
    ]
    analysed = analyse(profile)
    spent = {row["host_work"]: row["idle_ns"] for row in b.rows(analysed, "waits")}
    assert (spent["profiler"], spent["compile"], sum(spent.values())) == (3 * MS, MS, 8 * MS)
    items = [item.says.get("work") for item in analysed.advice if item.code == "TC301"]
    assert "profiler" not in items and items
