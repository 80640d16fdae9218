"""Kernel names that only their grammar tells: cut off, behind result types, in scopes, with nasty words, and newer ones."""

from __future__ import annotations

# ruff: noqa: E501

# (name, uses Tensor Cores, precision of the operands)
GRAMMAR_NAMES: tuple[tuple[str, str, str | None], ...] = (
    ("_gemm_mha_v2_0x7daddb359f728ff2e600188f192f4549", "yes", None),
    ("__mye8037_gemm_mha_v2", "yes", None),
    ("_gemm_mha_v2_myl3_6", "yes", None),
    ("_gemv_mha_v1_0x7daddb359f728ff2e600188f192f4549", "no", None),
    ("cudnn_generated_fort_native_sm80_convFwd_pointwise_pointwise_pointw...", "yes", None),
    ("cudnn_generated_fort_native_sm120_matMul_pointwise_pointwise_knob_20_32x32x128_0_0", "yes", None),
    ("cudnn_generated_fort_native_sm70_convFwd_pointwise", "unknown", None),
    (
        "void sm90::fwd::sparse_attn_fwd_kernel<sm90::fwd::KernelTemplate<576>, sm90::fwd::TMAParams>(SparseAttnFwdParams, sm90::fwd::TMAParams)",
        "yes",
        None,
    ),
    ("void sm100::fwd::head128::sparse_attn_fwd_kernel<sm100::fwd::head128::KernelTemplate<576>>", "yes", None),
    ("my::sparse_attn_fwd_kernel", "unknown", None),
    ("void smxx::decode::get_mla_metadata_kernel(GetDecodeSchedMetaParams)", "no", None),
    ("sm75_xmma_gemm_f16f16_f16f32_f32...", "yes", "fp16"),
    ("sm75_xmma_gemm_f16f16_f16f16_f16_nn", "yes", "fp16"),
    ("sm80_xmma_fprop_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc...", "yes", "bf16"),
    ("sm80_xmma_gemm_i8f32_i8i32_f32_tn", "yes", "int8"),
    ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn", "yes", "tf32"),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128", "unknown", "fp32"),
    ("sm50_xmma_gemm_f16f16_f16f32_f32", "no", "fp16"),
    (
        "sm80_xmma_sparse_gemm_f16f16_f16f32_f32_nt_n_tilesize128x128x64_stage3_warpsize2x2x1_sptensor16x8x32",
        "yes",
        "fp16",
    ),
    (
        "void flash_attn_ext_f16<128, 128, 8, 4, false, false>(char const*, char const*, char const*, char const*, float*, float2*, float)",
        "yes",
        "fp16",
    ),
    (
        "void moe::dev::routing::routingCustom::routingIndicesBlockKernel<moe::dev::routing::routingCustom::KernelParams<__nv_bfloat16, __nv_bfloat16, 128, 4>>",
        "no",
        "bf16",
    ),
    ("void moe::dev::routing::routingIndicesHistogramKernel<KernelParams<float>>(KernelParams<float>)", "no", "fp32"),
    ("void dev::routing::routingIndicesHistogramKernel<KernelParams<float>>(KernelParams<float>)", "no", "fp32"),
    ("void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<float>>", "no", "fp32"),
    (
        "std::enable_if<(((width)>(0))&&(vllm::_typeConvert<c10::BFloat16>::exists)), void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, (int)8>(c10::BFloat16 *, long, const c10::BFloat16 *, float, int, int)",
        "no",
        "bf16",
    ),
    (
        "std::enable_if<(!std::is_same_v<at::native::GemmOp, void>), void>::type at::native::vectorized_layer_norm_kernel<float, float>(int, float, float const*)",
        "no",
        "fp32",
    ),
    ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_", "no", "fp32"),
    ("_ZN6thrust8cuda_cub4core13_kernel_agentINS0_14__parallel_for16ParallelForAgentEEEvT_", "no", None),
    (
        "_ZN7cutlass7Kernel2I66cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8EEvNT_6ParamsE",
        "yes",
        "bf16",
    ),
    ("void vllm::fusedQKNormRopeKernel<c10::BFloat16, 128, false>(void*, int)", "no", "bf16"),
    ("void fastertransformer::add_fusedQKV_bias_transpose_kernel<__half>(__half*)", "no", "fp16"),
    ("qk_dot_kernel(float*, float*)", "unknown", "fp32"),
    ("void gemm::attention::moe::copy_kernel<unsigned char>(unsigned char*)", "no", None),
    ("void at::native::scaled_gemm_kernel<float>(float*)", "unknown", "fp32"),
    ("nvcuda::wmma::copy_kernel(float*)", "no", "fp32"),
    ("void foo_kernel<128>(nvcuda::wmma::fragment<half>)", "unknown", "fp16"),
    ("julia_gpu_matmul_kernel__1337", "unknown", None),
    ("_Z17julia_dot_kernel_13CuDeviceArrayI7Float32Li2ELi1EES_S_", "unknown", None),
    ("void cast_kernel<signed char, float>(signed char const*, float*)", "no", "fp32"),
    ("void genericReformat::copyPackedKernel<signed char, signed char, true, true>(unsigned int)", "no", None),
    ("void quantize_kernel<__nv_fp8_e4m3>(__nv_fp8_e4m3*)", "no", None),
)
