"""What kernels do, and what else their names tell."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.kernels.details import details_of, with_details
from tcprobe.analysis.kernels.kinds import is_direct, kind_of, part_of
from tcprobe.analysis.kernels.verdict import classify
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import KERNEL_KINDS, PRODUCTS
from tcprobe.schema.tables import KERNELS
from tests.analysis.kernels.examples import NAMES as LIBRARY_NAMES
from tests.analysis.kernels.grammar_examples import GRAMMAR_NAMES
from tests.support import ROOT, shared

NAMES = [name for name, _, _ in LIBRARY_NAMES + GRAMMAR_NAMES]
VECTORIZED = "void at::native::vectorized_elementwise_kernel<4, {}, at::detail::Array<char*, 3> >(int)"
MULTI = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>, {}<float>, float>(int)"
)
XMMA = "xmma_cudnn::implicit_gemm::"
TRAITS = "Kernel_traits<xmma_cudnn::Ampere_hmma_tf32_traits<unsigned int, float> > >(T1::Params)"
EIGEN = "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<X, {} const> const> >(int)"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("volta_sgemm_128x64_nn", "matmul"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "matmul"),
        ("Cijk_Ailk_Bljk_BBS_BH_Bias_MT128x128x64_MI16x16x16x1", "matmul"),
        ("gemm_fusion_dot_29", "matmul"),
        ("my_matmul_kernel(float*, float*)", "matmul"),
        ("void gemv2T_kernel_val<int, int, float>(int)", "matrix_vector"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "convolution"),
        ("void implicit_convolve_sgemm<__half, __half, 128, 5, 5, 3, 3, 3, 1, false, true, true>(int)", "convolution"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >(flash::Flash_fwd_params)", "attention"),
        ("_gemv_mha_v1_0x7daddb359f728ff2e600188f192f4549", "attention"),
        (
            f"void xmma_cudnn::implicit_gemm::strided_dgrad_indexed::kernel<{XMMA}strided_dgrad_indexed::{TRAITS}",
            "convolution",
        ),
        (f"void xmma_cudnn::gemm::kernel<{XMMA}wgrad_indexed::{TRAITS}", "convolution"),
        (
            f"void xmma_cudnn::ext::implicit_gemm::kernel<xmma_cudnn::ext::implicit_gemm::indexed_wo_smem::{TRAITS}",
            "convolution",
        ),
        (
            f"void {XMMA}strided_dgrad_indexed::kernel_helper_stage_2<{XMMA}strided_dgrad_indexed::{TRAITS}",
            "helper",
        ),
        ("void convolveNd_dgrad_float_engine<float, 3, 128, 6, 8, 3, 3, 5, false>(int, int, int)", "convolution"),
        ("CudaCodeGen::kernel2(CudaCodeGen::Tensor<float, (int)5>, CudaCodeGen::Tensor<float, (int)5>)", "fusion"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int>(int)", "helper"),
        ("void cudnn::cnn::im2col4d_kernel<__half, long>(int)", "helper"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)", "normalisation"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512>(int)", "normalisation"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false>(float*)", "softmax"),
        (VECTORIZED.format("at::native::CUDAFunctor_add<float>"), "elementwise"),
        (VECTORIZED.format("at::native::FillFunctor<float>"), "copy"),
        (
            VECTORIZED.format("at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}"),
            "copy",
        ),
        ("matrix_addition2D(float*, float*, float*, int)", "elementwise"),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >",
            "reduction",
        ),
        (EIGEN.format("Eigen::TensorConversionOp<Eigen::half, Y>"), "copy"),
        (EIGEN.format("Eigen::TensorCwiseBinaryOp<Eigen::internal::scalar_sum_op<float>, Y, Z>"), "elementwise"),
        (EIGEN.format("Eigen::TensorReductionOp<Eigen::internal::SumReducer<float>, Y, Z>"), "reduction"),
        (MULTI.format("at::native::AdamFunctor"), "optimizer"),
        (MULTI.format("at::native::LpNormFunctor"), "reduction"),
        (MULTI.format("at::native::BinaryOpScalarFunctor"), "elementwise"),
        ("void cudnn::ops::nchwToNhwcKernel<float, float, float>(int)", "copy"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>(int)", "copy"),
        ("void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>(char*)", "gather"),
        ("void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)", "sort"),
        ("split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp(int)", "embedding"),
        ("void tensorflow::functor::ApplyAdamKernel<float>(int)", "optimizer"),
        ("void gen_sequenced<curandStateXORWOW, float2, normal_args_st, rng_config>", "random"),
        ("void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float>(int)", "random"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
            "communication",
        ),
        ("redzone_checker", "autotuning"),
        ("void fft2d_r2c_16x16<__half>(float2*)", "helper"),
        ("void regular_fft<256u, EPT<16u>, 32u, 8u>(kernel_arguments_t<unsigned int>)", "fourier"),
        ("sm50_xmma_pooling_coalescedC_NHWC_kMAX_3_False_execute_kernel_trt", "pooling"),
        ("triton_poi_fused_add_gelu_native_layer_norm_3", "fusion"),
        ("loop_convert_fusion_2", "copy"),
        ("loop_add_convert_fusion_2", "fusion"),
        ("__myl_AddSqrtDivMulCastMulAddReshReshTran_0x3bd0e47e6d9763a38e7103a8dfce83c4", "fusion"),
        ("__myl_Cast_0x88a9fc905715f4bf12322bd14c6ba089", "copy"),
        ("triton_softmax_3_0", "softmax"),
        ("void jacobi_kernel<32, 32>(float*, float const*, float*, int, int, int, bool)", "unknown"),
        ("", "unknown"),
    ],
)
def test_kind_of_a_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_what_uses_tensor_cores_multiplies() -> None:
    assert {name for name in NAMES if classify(name).uses_tc == "yes" and kind_of(name) not in PRODUCTS} == set()


def test_a_fusion_lists_its_ops() -> None:
    assert details_of("triton_poi_fused_add_gelu_native_layer_norm_3").fused_ops == "add_gelu_native_layer_norm"
    assert details_of("loop_add_convert_fusion_2").fused_ops == "add_convert"
    assert details_of("fusion_12").fused_ops is None
    assert details_of("loop_convert_fusion_2").fused_ops is None  # a copy


@pytest.mark.parametrize(
    ("name", "tile", "depth", "layout", "alignment", "sums", "generation"),
    [
        ("volta_sgemm_128x64_nn", "128x64", (None, None), "nn", None, "fp32", "volta"),
        ("ampere_h16816gemm_256x128_ldg8_stages_32x3_tn", "256x128", (32, 3), "tn", 8, "fp16", "ampere"),
        ("turing_int8_i8816gemm_int8_128x128_ldg16_tn", "128x128", (None, None), "tn", 16, "int32", "turing"),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align2>(int)",
            *("64x64", (64, 6), "tn", 2, "fp32", "ampere"),
        ),
        ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", "128x32", (8, 5), "nn", 1, "fp32", "ampere"),
        (
            "cutlass3x_sm90_tensorop_h64x256x16gemm_f16_f16_f16_void_f16_128x256x64_1x2x1_0_ntn_align8",
            *("128x256", (64, None), "nt", 8, "fp16", "hopper"),
        ),
        (
            "sm80_xmma_gemm_i8i8_i8i32_f32_tn_n_tilesize128x64x64_stage3_warpsize2x2x1_tensor16x8x32_kernel",
            *("128x64", (64, 3), "tn", None, "int32", "ampere"),
        ),
        ("nvjet_qqtst_112x128_128x7_2x1_v_bz_coopA_algo2_TNN", "112x128", (128, 7), "tn", None, "fp32", "hopper"),
        ("nvjet_sm100_tst_256x256_64x4_2x1_2cta_v_bz_TNT", "256x256", (64, 4), "tn", None, "fp32", "blackwell"),
        ("maxwell_scudnn_128x32_relu_interior_nn", "128x32", (None, None), None, None, "fp32", "maxwell"),
        ("my_matmul_kernel(float*, float*)", None, (None, None), None, None, None, None),
    ],
)
def test_what_the_names_of_products_tell(
    name: str,
    tile: str | None,
    depth: tuple[int | None, int | None],
    layout: str | None,
    alignment: int | None,
    sums: str | None,
    generation: str | None,
) -> None:
    told = details_of(name)
    assert (told.tile, (told.tile_k, told.stages)) == (tile, depth)
    assert (told.layout, told.alignment, told.accumulates_in) == (layout, alignment, sums)
    assert told.generation == generation


def test_pass_split_and_library() -> None:
    name = "volta_fp16_s884cudnn_fp16_256x64_ldg8_splitK_relu_f2f_exp_small_nhwc_tn_v1"
    assert (details_of(name).pass_, details_of(name).split_k, details_of(name).library) == (None, True, "cudnn")
    wgrad = "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4"
    assert (details_of(wgrad).pass_, details_of(wgrad).split_k) == ("wgrad", None)
    assert details_of("void dgrad_engine<float, 128, 6>(int)").pass_ == "dgrad"
    assert details_of("volta_sgemm_128x64_nn").library == "cublas"
    assert details_of("ncclDevKernel_SendRecv(int)").library == "nccl"


def test_columns_of_the_table() -> None:
    rows = [
        {"kernel": name, "uses_tc": "no", "evidence": "x"}
        for name in ("volta_sgemm_128x64_nn", "void dgrad_engine<float>(int)", "volta_sgemm_128x64_nn")
    ]
    table = with_details(Table.from_rows(KERNELS, rows))
    assert table.values("kind") == ["matmul", "convolution", "matmul"]
    assert table.values("pass") == [None, "dgrad", None]
    assert table.values("tile") == ["128x64", None, "128x64"]
    assert table.values("alignment") == [None, None, None]


def test_every_kind_is_documented() -> None:
    text = (ROOT / "docs" / "classification.md").read_text(encoding="utf-8")
    section = text[text.index("## What a kernel does") : text.index("## How well this does")]
    assert [kind for kind in KERNEL_KINDS if f"`{kind}`" not in section] == []


@given(st.text(max_size=300))
def test_any_text_has_a_kind(name: str) -> None:
    assert details_of(name).kind in KERNEL_KINDS


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
