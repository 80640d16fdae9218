"""Why Nsight Compute counted nothing, from what it prints (texts of 2024.1.1, and of 2025.3 in a sandbox)."""

from __future__ import annotations

import pytest

from bench.gpu.counters.refusals import refusal

PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the"
    " target device 0. For instructions on enabling permissions and to get more information see"
    " https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)


@pytest.mark.parametrize(
    ("printed", "reason", "remedy"),
    [
        (PERMISSION, "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "another tool", "dcgmi"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "sandbox", "virtual machine"),
        ("==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).", "driver", ""),
    ],
)
def test_what_cannot_be_helped_today(printed: str, reason: str, remedy: str) -> None:
    found = refusal(f"the program's line\n==PROF== Connected to process 7 (/usr/bin/python)\n{printed}\n")
    assert found.lasting
    assert reason in found.reason
    assert remedy in (found.remedy or "")


def test_other_errors_are_told_without_paths_and_tried_again() -> None:
    found = refusal("==ERROR== Cannot write /home/someone/x.ncu-rep\n==WARNING== No kernels were profiled.\n")
    assert (found.reason, found.lasting) == ("Nsight Compute: Cannot write x.ncu-rep", False)


def test_the_program_is_not_taken_for_the_tool() -> None:
    assert not refusal("Device 0 is not supported\n==WARNING== No kernels were profiled.\n").lasting
