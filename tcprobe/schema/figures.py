"""The figures of a run's summary, each in a sentence; docs/figures.md has their formulas and what limits them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIGURES: Final[Mapping[str, str]] = {
    "tc_kernel_time_pct": "time of kernels that use Tensor Cores over the time of all kernels",
    "coverage_pct": "time of kernels whose class is known over the time of all kernels; below 90 % a range is wide",
    "tc_capable_time_pct": "of the kernel time of ops that Tensor Cores could run, the part that ran there",
    "capable_time_pct": "kernel time of ops whose type Tensor Cores could run over the time of all kernels",
    "ops_using_tc_time_pct": "GPU time of ops that the profiler says use Tensor Cores over that of all ops",
    "ops_eligible_not_using_time_pct": "GPU time of ops that could use Tensor Cores and use none over that of all ops",
    "ops_idle_ns": "time in which the GPU is idle within calls of ops",
    "ops_idle_pct": "that over itself and the GPU time of the ops",
    "gpu_busy_pct": "part of the window in which a kernel ran, the mean over the GPUs that ran any",
    "window_ns": "length of the part of the profile that counts",
    "idle_ns": "how long the GPU waits in a step: its length less the time in which a kernel ran",
    "idle_pct": "that over the length of the step",
    "kernel_time_ns": "summed time of the kernels of the window, over all GPUs",
    "tc_time_ns": "summed time of those that use Tensor Cores",
    "communication_kernel_time_pct": "time of kernels that move data between GPUs over the time of all kernels",
    "communication_kernel_time_ns": "summed time of kernels that move data between GPUs",
    "communication_exposed_ns": "the part of that during which no other kernel ran on the GPU",
    "memory_time_ns": "summed time of copies and sets",
    "kernels": "number of launches of kernels",
    "iterations_in_window": "number of steps that count",
    "step_time_ns": "median length of a step, start to start, outside the profiled window where any was timed there",
    "mean_step_time_ns": "mean length of the same steps, those with an epoch's end included",
    "short_step_ns": "median length of the shorter of two kinds of steps",
    "long_step_ns": "median length of the longer of two kinds of steps",
    "epoch_end_ns": "median length of steps with an epoch's end",
    "epoch_ends": "number of steps with an epoch's end, which the step time leaves out",
    "retrace_ns": "median length of steps in which a function was traced again",
    "retraces": "number of such steps, which the step time leaves out",
    "update_ns": "time a step of the ops that update the weights, with those of a dynamic loss scale",
    "throughput": "median of what the script logged under that name",
    "flops_per_step": "floating-point operations of a step's products on one GPU",
    "achieved_tflop_per_s": "FLOPs of the ops with shapes and kernel time over that time",
    "peak_pct": "time that those FLOPs would take at the GPU's dense peak over the time they took",
    "mfu_pct": "model FLOPs utilisation: time that a step's products would take all GPUs at their peak over the step",
    "hfu_pct": "the same with products that are computed again",
    "mfu_peak_tflop_per_s": "the dense peak of one GPU that these two are held against",
    "bad_size_count": "number of sizes of layers that a better one is known for",
    "gemm_layers": "number of layers that multiply matrices and run",
}
"""By name, which ends in the unit (ns, pct). Of each precision that occurs there is ``precision_NAME_time_pct`` too."""
