"""Kernel names and counters that a GPU library might show for an op, for rehearsals: nothing here was measured.

Names have the families' forms, so that readers meet what they will meet; each says `fake_`.
"""

from __future__ import annotations

from typing import NamedTuple

SOURCES = {
    "bfloat16": "bf16_dst_fp32",
    "float16": "fp16",
    "tf32": "tf32_dst_fp32",
    "float8_e4m3fn": "fp8",
    "int8": "int8",
}
NVJET = {"bfloat16": "tst", "float16": "hsh", "tf32": "sss", "float8_e4m3fn": "qqtst", "int8": "iii"}
XMMA = {"bfloat16": "bf16bf16_bf16f32_f32", "float16": "f16f16_f16f32_f32", "tf32": "tf32f32_tf32f32_f32"}
VECTORIZED = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::fake_%s, std::array<char *, (unsigned long)2>>"
    "(int, T2, T3)",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_6fake_%sESt5arrayIPcLm2EEEEviT0_T1_",
)


class FakeKernel(NamedTuple):
    """A kernel's names, and the operand type of its Tensor Core operations; empty where it has none."""

    demangled: str
    mangled: str
    source: str


def kernels_of(case: str) -> list[FakeKernel]:
    """Return the kernels of a case, by the words of its name: op, pass and dtype; of others an element-wise one."""
    words = case.split("-")
    op, dtype = words[0], next((word for word in words if word in SOURCES), "float32")
    if op in ("gemm", "conv"):
        return _products(op, dtype, next((word for word in words if word in ("dgrad", "wgrad")), "fprop"))
    if op == "attention" and dtype != "float32":
        name = "cudnn_generated_fort_native_sdpa_sm90_flash_%s_wgmma_f16_fake_knob_7_64x128x128_4x1x1_kernel0_0"
        name %= "bprop" if "backward" in words else "fprop"
        return [FakeKernel(name, name, SOURCES[dtype])]
    return [FakeKernel(VECTORIZED[0].replace("%s", op), VECTORIZED[1].replace("%s", op), "")]


def _products(op: str, dtype: str, direction: str) -> list[FakeKernel]:
    if dtype == "float32":
        names = [
            "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_fake_kernel__5x_cublas"
        ]
    elif op == "gemm":
        names = [f"nvjet_sm90_{NVJET[dtype]}_128x256_64x4_2x1_v_bz_coopA_fake_TNN"]
    else:
        types = XMMA.get(dtype, XMMA["float16"])
        form = "sm90_xmma_%s_implicit_gemm_%s_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1_fake_kernel__5x_cudnn"
        names = [form % (direction, types)]
    return [FakeKernel(name, name, SOURCES.get(dtype, "")) for name in names]


def counters_of(kernel: FakeKernel, metrics: tuple[str, ...]) -> dict[str, str]:
    """Return a value for each metric that fits the kernel."""
    return {metric: _value(kernel, metric) for metric in metrics}


def _value(kernel: FakeKernel, metric: str) -> str:
    if metric == "gpu__time_duration.sum":
        return "7776"
    if not kernel.source or "hfma2" in metric:
        return "0"
    if "ops_path" in metric:
        return "137438953472" if metric.split(".")[0].endswith("src_" + kernel.source) else "0"
    if "inst_executed" in metric:
        return "0" if any(word in metric for word in ("dmma", "imma")) else "131072"
    return "61.803399"
