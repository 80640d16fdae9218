"""What part a kernel has in its op, on real names and on those of compilers' fusions."""

from __future__ import annotations

import csv

import pytest

from tcprobe.analysis.kernels.parts import is_direct, part_of
from tests.support import shared

PARTS = {
    "layout": (
        "void nchwToNhwcKernel<float, float, float, true, false, (cudnnKernelDataType_t)0>(int, int)",
        "void cudnn::ops::convertTensor_kernel<float, __half>(float)",
        "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned int, 128, 9, 128, false>(unsigned)",
        "void genericReformat::copyVectorizedKernel<double, __half, __half, (bool)1>(unsigned int)",
        "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::T&)>(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(at::T&)>(int)",
        "void Eigen::internal::EigenMetaKernel<Eigen::TensorAssignOp<Eigen::TensorConversionOp<Eigen::half>>>(long)",
        "loop_convert_fusion", "input_transpose_fusion", "wrapped_transpose", "loop_slice_convert_fusion.3",
        "triton_poi_fused__to_copy_0", "triton_poi_fused_clone_transpose_3",
    ),
    "helps": (
        "void splitKreduce_kernel<32, 16, int, float>(float*)",
        "loop_add_convert_fusion", "input_convert_reduce_fusion_2", "input_multiply_transpose_fusion",
        "triton_poi_fused__to_copy_add_mul_1", "triton_red_fused__to_copy_native_layer_norm_2",
        "void Eigen::internal::EigenMetaKernel<Eigen::TensorCwiseBinaryOp<Eigen::TensorConversionOp<float>>>(long)",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(float)",
        "void cudnn::winograd::generateWinogradTilesKernel<0, float, float>(float)",
        "void cudnn::cnn::im2col4d_kernel<float, long>(float const*)", "void flip_filter<float, float>(float*)",
        "void CatArrayBatchedCopy<float, unsigned int, 4, 64, 64>(float*)",
    ),
    "multiplies": (
        "volta_sgemm_128x64_nn", "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "gemm_fusion_dot_7", "im2col_gemm_kernel", "void wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int)",
        "volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("part", "kernel"), [(part, name) for part, names in PARTS.items() for name in names])
def test_parts(part: str, kernel: str) -> None:
    assert part_of(kernel) == part


def test_direct_kernels() -> None:
    assert is_direct("void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half, float, float>(float)")
    assert is_direct("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false>(int)")
    assert not is_direct("volta_sgemm_128x64_nn")
    assert not is_direct("turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1")


def test_no_kernel_known_to_use_tensor_cores_is_anything_but_a_product() -> None:
    with shared("samples/kernel_names.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    on = {row["kernel_name"] for row in rows if row["uses_tc"] == "yes"}
    assert len(on) > 100
    assert {name for name in on if part_of(name) != "multiplies"} == set()
    assert {name for name in on if is_direct(name)} == set()
