r"""What the name of a CUDA kernel says about Tensor Cores: a table of rules, tried in order, first match wins.

The rules follow the grammar in which libraries compose names; they are no list of names. First come helpers
beside a GEMM and instructions of the CUDA cores, then instructions, operand shapes and kernel families of the
Tensor Cores, then families that never multiply matrices, and last what cannot be told. Each says in which part of
the name its words count: mostly the function's own name; an instruction, operand type or operator class in the
template arguments too; a scope only where it is a library's (Eigen, marlin), never as a verb. Of parameters the types
of CUDA's own matrix instructions count; the result type decides nothing.
docs/classification.md describes each rule; a test holds the two together. ``(?<![a-z])`` keeps a token from
matching inside a word (gemma, summary); digits and underscores may stand on both sides of it.
"""

from __future__ import annotations

import re
from typing import Final

from tcprobe.analysis.kernels.rule import (
    FRAMEWORK_MULTIPLIES,
    MENTIONS,
    MOVES_OR_MAPS,
    MULTIPLIES,
    NameRule,
    Sought,
    compiled,
    seek,
    whole_words,
)

MEASURED: Final = "Nsight Compute counters in public reports (sm__pipe_tensor_*, sm__ops_path_tensor_*)"
PROCEDURAL: Final = "CUTLASS profiler documentation, GEMM procedural names; cuBLAS and cuDNN reuse that grammar"
XMMA: Final = "names of cuDNN 8/9, cuBLAS 11/12 and TensorRT kernels; pytorch/kineto#1041 (Nsight Compute confirms)"
PTX: Final = "PTX ISA, matrix multiply-accumulate instructions (mma, wmma, wgmma, tcgen05.mma)"
CUTLASS: Final = "NVIDIA/cutlass, include/cutlass/arch/mma.h and python/cutlass_library"
PYPROF: Final = "NVIDIA PyProf, pyprof/prof/tc.py"
DLPROF: Final = "cuBLAS and cuDNN names; NVIDIA DLProf marks them as not using Tensor Cores"
ARITHMETIC: Final = "CUDA C++ Programming Guide, arithmetic instructions of the CUDA cores"


def anywhere(pattern: str, unless: str | None = None) -> tuple[Sought, ...]:
    """Search the function's own name, unless its words hold something, and identifiers of its template arguments."""
    return seek("function", pattern, unless), seek("argument", pattern)


# in upper case: cuDNN's generated kernels of any kind write the architecture in lower case and sizes of clusters
CUTE_ATOM: Final = re.compile(r"(?<![A-Za-z])SM(?:70|75|80|89|90|100|103|120)_\w{0,40}?\d+x\d+x\d+_", re.ASCII)

NAME_RULES: Final[tuple[NameRule, ...]] = (
    NameRule(
        "graph-launch",
        "unknown",
        (seek("whole", r"^Command\ Buffer | ^CudaGraph | cudaGraphLaunch | ^\(?CUDA\ graph"),),
        "a launched CUDA graph, whose kernels the profile does not name",
        "openxla/xprof#3070",
    ),
    NameRule(
        "gemm-helper",
        "no",
        (
            seek(
                "function",
                r"""
                split_?k_?reduce\w* | reduce_?split_?k\w* | offsets_?kernel\w* | compute_gemm_pointers
                | make_batch_pointers | (?:splitkv|flash_)\w{0,40}?combine | (?:fwd|forward)_?combine | attn_?combine
                | dot_do_o | convert_d[qkv]+ | clear_d[qkv]+_?accum\w* | prepack_\w+ | marlin\w{0,40}?_preprocess\w*
                | (?:bwd|backward)_?(?:pre|post)_?process | prepare_varlen
                | scalePackedTensor | (?:marlin|awq|gptq)\w{0,40}?_repack | permute_cols | reshape_and_cache\w*
                | merge_?(?:attn_?)?states? | reduce_wgrad\w* | get_mla_metadata\w*
                | moe_?(?:align|sum|permute|unpermute|sort|topk|finalize)\w* | topk\w{0,40}?gating\w*
                | finalize_?moe\w* | routing(?:Indices|Main|Init)\w* | build_?expert_?maps\w*
                | count_and_sort_expert\w* | concat_and_cache\w* | fmha_?reduc\w* | flash_attn_stream_k_fixup\w*
                | kernel_helper_stage_\d
                """,
            ),
            seek("path", r"deep_gemm::(?:transpose|pack|smxx_)\w* | epilogue::impl::globalKernel | moe::dev::\w+::\w+"),
        ),
        "a helper beside a GEMM, convolution or attention: it prepares, routes, reduces or converts",
        "flash-attention, FlashMLA and CUTLASS (reduction/) sources; flashinfer trtllm/fused_moe (RoutingKernel.cuh); "
        "vLLM csrc/quantization (machete_prepack_kernel, marlin_int4_fp8_preprocess); ggml-cuda (fattn-common); "
        "cuDNN's strided_dgrad_indexed on an A100 (a stage is one thread, or has 16 bytes of shared memory); "
        f"{DLPROF}",
        multiplies=False,
    ),
    NameRule(
        "collective",
        "no",
        (
            seek(
                "function",
                r"""
                nccl\w* | nvshmem\w* | mscclpp | cross_device_reduce\w* | all_?reduce\w* | all_?gather\w*
                | reduce_?scatter\w* | all_?to_?all\w* | userbuffers\w*
                | (?:multimem_|one_shot_|two_shot_)+all_(?:reduce|gather)\w*
                """,
                unless="gemm|matmul|mma",
            ),
            seek("path", r"(?<!\w)(?:mscclpp|nvshmem\w*|deep_ep)::", unless="gemm|matmul|mma"),
        ),
        "communication between GPUs",
        "NVIDIA/nccl, src/device; deepseek-ai/DeepEP; pytorch/pytorch, CUDASymmetricMemoryOps.cu",
        multiplies=False,
    ),
    NameRule(
        "before-volta",
        "no",
        (
            seek(
                "function",
                r"""
                (?<![a-z])sm_?[2356]\d(?!\d)
                | (?<![a-z])(?:fermi|kepler|maxwell|pascal)_\w{0,40}?(?:gemm|cudnn|conv)\w*
                """,
            ),
            seek("argument", r"^sm_?[2356]\d$"),
        ),
        "code for an architecture before Volta, which has no Tensor Core instruction",
        "CUDA C++ Programming Guide, compute capabilities",
    ),
    NameRule(
        "fma-instruction",
        "no",
        anywhere(r"(?<![a-z])(?:ffma|dfma|hfma2?|idp2?4?a|dp[24]a)(?![a-z]) | UniversalFMA"),
        "a multiply-add instruction of the CUDA cores",
        f"{MEASURED}; {ARITHMETIC}",
    ),
    NameRule(
        "simt",
        "no",
        anywhere(r"(?<![a-z])simt(?![a-z]) | OpClassSimt | MmaSimt"),
        "CUTLASS's operator class for CUDA cores",
        f"{CUTLASS}; {MEASURED}",
    ),
    NameRule(
        "two-gemms",
        "unknown",
        anywhere(r"B2bGemm | B2bMma | b2b_\w{0,40}?gemm"),
        "CUTLASS's back-to-back GEMM, measured both with and without Tensor Core activity",
        MEASURED,
    ),
    NameRule(
        "xmma",
        "yes",
        anywhere(r"(?<![a-z])(?:sp)?tensor\d+x\d+x\d+ | warpgroupsize\d+x\d+x\d+"),
        "an xmma kernel on MMA or warpgroup MMA instructions",
        XMMA,
    ),
    NameRule(
        "xmma-operands",
        "yes",
        (
            seek(
                "function",
                r"""
                (?<![a-z])sm(?:7[05]|[89]\d|1[012]\d)_xmma_\w{0,60}?gemm_(?:[a-z]+_){0,3}?
                (?:(?:b?f16){2}|tf32(?:tf32|f32)|f32f32_tf32|(?:e[45]m[23]){2}|f8f8)
                | (?<![a-z])sm(?:75|[89]\d|1[012]\d)_xmma_\w{0,60}?gemm_(?:[a-z]+_){0,3}?i8(?:i8|i32|f32)
                """,
            ),
        ),
        "an xmma GEMM on 16-bit, TF32 or 8-bit operands; those on CUDA cores say ffma or take float32",
        XMMA,
    ),
    NameRule(
        "mma-instruction",
        "yes",
        (
            *anywhere(
                r"(?<![a-z])(?:[hidqbomu]|w|wg|[hiqbd]g|utc[hiqo]?|tc)mma(?![a-z]) | tcgen05 | (?:tma|warp)[gu]mma",
                unless=MENTIONS,
            ),
            seek("argument", r"^[gu]mma$"),
            Sought("function", re.compile(r"(?<![A-Z])Wgmma(?![a-z])")),
            seek("parameters", r"(?<!\w)nvcuda::wmma::\w+"),
        ),
        "a Tensor Core instruction",
        f"{PTX}; NVlabs/tiny-cuda-nn, fully_fused_mlp.cu (nvcuda::wmma::layout_t); nvidia-cutlass-dsl's kernel names",
    ),
    NameRule(
        "mma-word",
        "yes",
        (
            Sought("function", re.compile(r"(?<![a-z])mma\d*(?![A-Za-z])|(?<![a-z])ldmatrix"), compiled(MENTIONS)),
            Sought("argument", re.compile(r"(?<![a-z])mma\d*(?![A-Za-z])|(?<![a-z])ldmatrix")),
        ),
        "the PTX instruction in the name",
        PTX,
    ),
    NameRule(
        "mma-shape",
        "yes",
        anywhere(r"""
            (?<![a-z0-9])(?:[hsidczqb]|bf|tf)
            (?:884|1688|16816|16832|16864|8816|8832|161616|32816|83216|168128|168256|88128)(?!\d)\w*
            | (?<![a-z0-9])[hsidczqb]\d+x\d+x\d+(?:[a-z0-9]*gemm|\w{0,40}?(?:conv|fprop|dgrad|wgrad))
        """),
        "operand letter and MMA shape",
        f"{PROCEDURAL}; {PYPROF}",
    ),
    NameRule(
        "ptx-shape",
        "yes",
        anywhere(
            r"""
            (?<![a-z0-9])m(?:8|16|32|64|128|256)
            n(?:x|\d{1,2}|1\d\d|2[0-4]\d|25[0-6]) k(?:4|8|16|32|64|96|128|256)(?!\d)
            """
        ),
        "an MMA shape as PTX spells it",
        f"{PTX}; mit-han-lab/llm-awq (gemm_forward_4bit_cuda_m16nXk32)",
    ),
    NameRule(
        "cute-atom",
        "yes",
        (
            Sought("function", CUTE_ATOM),
            Sought("argument", CUTE_ATOM),
            # of the CUDA cores' multiply-add CuTe makes an atom too: its shape is 1x1x1
            seek(
                "function",
                r"""
                TiledMMA_\w{0,120}?MMAAtom_\w{0,40}?ShapeMNK(?!111_)\d\w*
                | (?:sm_?(?:90|1[012]\d)|hopper|blackwell)\w{0,200}?(?:TiledMMA|MMAAtom)_(?!\w*ShapeMNK111_)\w*
                """,
            ),
        ),
        "a CuTe MMA atom",
        "NVIDIA/cutlass, include/cute/arch and python/CuTeDSL (cute.TiledMma in the names of its kernels)",
    ),
    NameRule(
        "tensorop",
        "yes",
        anywhere(r"tensorop\w{0,24} | tensor_op(?![a-z])", unless=MENTIONS),
        "CUTLASS's operator class for Tensor Cores",
        f"{CUTLASS}; {MEASURED}",
    ),
    NameRule(
        "nvjet",
        "yes",
        (seek("function", r"(?<![a-z])nvjet_\w+"),),
        "cuBLAS's kernels for Hopper and Blackwell, all of them on Tensor Cores",
        "GindaChen/nsys-ai#582; NVIDIA/Fuser#3137; rates near the dense Tensor Core peak of an H100",
    ),
    NameRule(
        "cudnn-sdpa",
        "yes",
        (seek("function", r"cudnn_generated_\w{0,40}?sdpa\w*"),),
        "cuDNN's fused attention",
        "cuDNN frontend documentation, scaled dot product attention",
    ),
    NameRule(
        "cudnn-generated",
        "yes",
        (seek("function", r"cudnn_generated_\w{0,40}?_sm(?:[89]\d|1[012]\d)_(?:conv|matmul)\w*"),),
        "a convolution or product that cuDNN generates for Ampere and later: float32 runs as TF32 there",
        "NVIDIA/cudnn-frontend, samples/legacy_samples/fusion_sample.cpp (16-byte alignment for a Tensor Core engine; "
        "float fusions need Ampere) and test/python/test_conv_fuzzer.py (TF32 for float32)",
    ),
    NameRule(
        "flash-attention",
        "yes",
        (
            *anywhere(r"""
                (?<![a-z])flash_(?:fwd|bwd)_(?:splitkv_|dq_dk_dv_|sparse_|mla_)?\w{0,40}?kernel
                | FlashAttn(?:Fwd|Bwd)(?:Sm\d+)? | FlashAttention(?:Forward|Backward)Sm\d+
                | (?<![a-z])flash_mla_\w{0,40}?kernel | Flash_(?:fwd|bwd)_kernel_traits
                | (?<![a-z])flash_(?:fprop|bprop)\w*
            """),
            seek("function", r"^flash_attn_ext_f16"),
            seek("path", r"(?<!\w)sm(?:90|100)::(?:\w++::){0,8}sparse_attn_\w{0,40}?kernel"),
        ),
        "FlashAttention, which takes float16, bfloat16 and float8 only",
        "Dao-AILab/flash-attention, csrc; deepseek-ai/FlashMLA, csrc/sm90 and sm100; ggml-org/llama.cpp, ggml-cuda "
        "(fattn-mma-f16, fattn-wmma-f16)",
    ),
    NameRule(
        "attention-float32-old",
        "no",
        (
            seek("function", r"fmha_cutlass[FB]_f32\w{0,80}?sm7\d"),
            seek(
                "signature",
                r"""
                ^AttentionKernel<float,\ ?cutlass::arch::Sm7\d
                | ^AttentionBackwardKernel<cutlass::arch::Sm7\d,\ ?float
                """,
            ),
        ),
        "attention on float32, built for GPUs without TF32",
        "facebookresearch/xformers, csrc fmha/gemm_kernel_utils.h",
    ),
    NameRule(
        "attention-float32",
        "unknown",
        (
            seek("function", r"fmha_cutlass[FB]_f32\w*"),
            seek("signature", r"^Attention(?:Backward)?Kernel<(?:cutlass::arch::Sm\d+,\ ?)?float,"),
        ),
        "attention on float32: TF32 instructions or CUDA cores, as the build decides",
        "facebookresearch/xformers, csrc fmha/gemm_kernel_utils.h",
    ),
    NameRule(
        "attention-fused",
        "yes",
        (
            seek(
                "function",
                r"""
                fmha_cutlass[FB]_b?f16\w* | (?<![a-z])fmha_v2_\w+ | (?<![a-z])fmha(?:Sm\d+\w?)?Kernel_\w*
                | (?<![a-z])fmha_(?:fprop|dgrad)_fp16\w* | qk_int8_sv_f(?:8|16)\w*
                | (?<![a-z])(?:Single|Batch)?Prefill_?With\w{0,40}?Kernel\w* | (?<![a-z])gemm_mha_v\d+\w*
                | BatchDecodeWithPagedKVCacheKernelMlaCute\w* | ^kernel_mha$
                """,
            ),
            *anywhere(r"Sm(?:90|100)Fmha\w*"),
            seek(
                "signature",
                r"^Attention(?:Backward)?Kernel<(?:cutlass::arch::Sm\d+,\ ?)?cutlass::(?:half_t|bfloat16_t)",
            ),
        ),
        "fused attention on half precision or narrower",
        "facebookresearch/xformers; NVIDIA/TensorRT-LLM; NVIDIA/apex; flashinfer prefill.cuh "
        "and decode_mla_cute_sm80.cuh; SageAttention; TensorRT-LLM's XQA (kernel_mha: mha.cu, mha_sm90.cu); "
        "NVIDIA/TensorRT#4167 (its MHA kernels take FP16, BF16 or INT8, from compute capability 7.5 on)",
    ),
    NameRule(
        "one-token",
        "no",
        (
            seek(
                "function",
                r"""
                (?<![a-z])(?:Single|Batch)Decode\w{0,40}?Kernel\w* | paged_attention_v[12]\w* | mul_mat_vec\w*
                | flash_attn_(?:tile|vec)\w* | moe_wna16_gemm\w*
                """,
            ),
            seek("signature", r"(?P<token>(?<![a-z0-9])router_gemm_kernel(?:_\w+_output)?)<[a-z_]"),
        ),
        "attention, or products for one token or a few: dot products on CUDA cores",
        "flashinfer decode.cuh; vLLM csrc/attention and csrc/moe/moe_wna16.cu (HFMA2); ggml-cuda (mmvq, fattn-vec, "
        "fattn-tile); TensorRT-LLM, dsv3RouterGemm.cu",
    ),
    NameRule(
        "trtllm-gen",
        "yes",
        (
            seek(
                "function", r"^(?:bmm|gemm|fmha)\w{0,80}?_(?:Bfloat16|Fp16|E4m3|E2m1|Mx\w{0,20}?)_\w{0,200}?_sm1\d\d\w*"
            ),
        ),
        "TensorRT-LLM's generated kernels for Blackwell",
        "NVIDIA/TensorRT-LLM, trtllm-gen",
    ),
    NameRule(
        "quantised-gemm",
        "yes",
        (
            seek(
                "path", r"deep_gemm::\w{0,40}?(?:gemm|logits)\w* | (?<!\w)marlin\w*::\w{0,40}?Marlin\w* | machete::\w+"
            ),
            seek("path", r"(?<!\w)vllm::cutlass_[23]x_(?:group_)?gemm\w*"),
            seek("function", r"(?<![a-z])sm(?:90|100)_\w{0,40}?gemm_\w{0,40}?impl | ^fused_a_gemm_kernel"),
            seek("signature", r"(?<![a-z_])marlin\w{0,40}?<"),
        ),
        "a GEMM of a serving library that is written around MMA instructions",
        "deepseek-ai/DeepGEMM; IST-DASLab/marlin; vLLM csrc/quantization (machete, cutlass_w8a8: OpClassTensorOp); "
        "TensorRT-LLM, dsv3FusedAGemm.cu (hmma_16_8_16)",
    ),
    NameRule(
        "cudnn-listed",
        "yes",
        (
            seek(
                "signature",
                r"""
                (?P<token>first_layer_wgrad_kernel | dgrad_1x1_stride_2x2\w* | (?<![a-z])direct_group(?!ed)\w*)
                (?!\w*<float)
                """,
            ),
        ),
        "a convolution that NVIDIA lists as Tensor Core",
        PYPROF,
    ),
    NameRule(
        "author-says",
        "yes",
        (seek("function", r"(?<![a-z])tensor_?cores?(?![a-z])", unless="(?:no|non|without)_?tensor"),),
        "its author says so",
        "the kernel's own name",
    ),
    NameRule(
        "triton-operands",
        "yes",
        (seek("function", r"(?<![a-z])matmul_ogs_[nt]{3}_(?:[a-z]+\d+\w{0,8}?x)?(?:bf16|fp16|fp8\w{0,8}?)x\w+"),),
        "a Triton matrix multiplication whose name says that its operands are narrow",
        "triton-lang/triton, python/triton_kernels (matmul_ogs: layouts, then the types of result, operand and weight)",
    ),
    NameRule(
        "triton-gemm",
        "unknown",
        (
            seek(
                "function", r"gemm_fusion\w* | matmul_ogs\w* | triton_gemm\w* | (?<![a-z])triton_(?:tem|mm|bmm|conv)\w*"
            ),
        ),
        "a Triton matrix multiplication: the dtype and the GPU decide, which the name does not tell",
        "OpenXLA, GemmFusion; PyTorch Inductor templates",
    ),
    NameRule(
        "triton-map",
        "no",
        (
            seek("function", r"(?<![a-z])triton_(?:poi|red|per|for|spl)_\w* | (?<![a-z])triton_softmax\w*"),
            seek("function", r"^_(?:state_passing|chunk_cumsum)_(?:fwd|bwd)\w*"),
        ),
        "a Triton pointwise, reduction or scan kernel",
        "PyTorch Inductor, codegen/triton.py (kernel categories); OpenXLA softmax fusion; state-spaces/mamba "
        "(ssd_state_passing.py, ssd_chunk_state.py: no tl.dot)",
        multiplies=False,
    ),
    NameRule(
        "nvfuser",
        "no",
        (seek("path", r"(?<!\w)CudaCodeGen::kernel\d+$"),),
        "a fusion of TorchScript's nvFuser: pointwise, reductions and normalisation",
        "PyTorch 1.12 to 2.0, torch/csrc/jit/codegen/cuda (parser.cpp: what it fuses; codegen.cpp: the namespace)",
        multiplies=False,
    ),
    NameRule(
        "xla-dot",
        "unknown",
        (
            seek(
                "function",
                r"^(?=[a-z_]*fusion).*?(?P<token>(?<![a-z])(?:dot|gemm|conv(?!ert)|cudnn|cublas|custom|triton)\w*)",
            ),
        ),
        "an XLA fusion around a matrix product",
        "OpenXLA GPU compiler",
    ),
    NameRule(
        "xla-fusion",
        "no",
        (
            seek(
                "function",
                r"""
                ^(?:[a-z][a-z0-9]*+_)*fusion(?:(?:__?|\.)\d++)*$
                | ^(?:wrapped|loop|input)_(?!dot|gemm|conv(?!ert))[a-z_]+(?:[_.]\d++)*$
                """,
            ),
        ),
        "an XLA loop, reduction or transpose fusion; matrix products go to libraries or to Triton",
        "OpenXLA GPU compiler, fusion emitters",
        multiplies=False,
    ),
    NameRule(
        "mlir-generated",
        "no",
        (seek("function", r"^[A-Z]\w{0,80}?_GPU_DT_\w{0,80}?_kernel"),),
        "a pointwise kernel that TensorFlow generates with MLIR",
        "tensorflow/core/kernels/mlir_generated",
        multiplies=False,
    ),
    NameRule(
        "gemm-without-shape",
        "no",
        (
            seek(
                "function",
                r"""
                (?:volta|turing|ampere|hopper|ada|blackwell)_\w{0,40}?(?<![a-z])g?[sczdhi]gemm\w*
                | (?<![a-z])g?[sc]gemm(?!_?(?:tf32|bf16))\w* | (?<![a-z])[dz]gemm_(?:large|sm_?\d|\d+x\d+)\w*
                | magma_\w{0,40}?gemm\w* | (?<![a-z])[sdczhi]cudnn\w*
                """,
            ),
        ),
        "a GEMM or convolution of a library without MMA shape: FFMA, DFMA, HFMA2 or DP4A on CUDA cores",
        f"{ARITHMETIC}; {MEASURED}",
    ),
    NameRule(
        "blas-vector",
        "no",
        (
            seek(
                "function",
                r"""
                (?<![a-z])gemv\w* | gemmk1\w* | gemmSN\w* | ^dot_kernel\w* | reduce_1Block\w*
                | transpose_readWrite\w*
                | ^(?:axpy|axpby|scal|nrm2|asum|iamax|iamin|rot|swap|ger|syr|symv|trsv)[2cgmu]?_kernel\w*
                | kgemm_4bit_inference_naive | gemm_half_q_half\w*
                """,
            ),
            seek("path", r"(?<!\w)(?:fpA_intB_)?gemv\w*::kernel$"),
            seek("argument", r"^cublasGemvParamsEx"),
        ),
        "a vector or small-matrix kernel on CUDA cores",
        f"{DLPROF}; bitsandbytes; exllamav2; TensorRT-LLM, weightOnlyBatchedGemv; cuBLAS 13.1 on an H100, {MEASURED}",
    ),
    NameRule(
        "cudnn-direct",
        "no",
        (
            seek(
                "function",
                r"""
                (?:implicit|explicit|precomputed)_convolve\w* | convolve_common_engine\w* | [dw]grad\d?d?_alg\w*
                | (?:convolveNd_)?[dw]grad_(?:float_)?engine\w* | grouped_direct\w* | GroupedDirect\w*
                | (?:conv|dgrad|wgrad)2d_c1_k1\w* | (?:conv_?)?depthwise\w* | winograd\w* | col2im\w*
                | im2col(?!\w*(?:gemm|matmul))\w* | flip_filter | pointwise_mult_and_sum_complex | causal_conv1d\w*
                """,
            ),
            seek("path", r"(?<!\w)depthwise\w*::kernel$"),
        ),
        "a direct, Winograd, FFT or depthwise convolution on CUDA cores",
        f"{DLPROF}; Nsight Compute on conv2d_c1_k1",
    ),
    NameRule(
        "fft",
        "no",
        (seek("function", r"(?<![a-z])(?:fft[123]d|vector_fft|regular_fft|multi_bluestein|composite_fft|r2c|c2r)\w*"),),
        "a Fourier transform",
        "cuFFT and cuDNN names",
    ),
    NameRule(
        "rnn-without-hmma",
        "no",
        (seek("function", r"RNN_blockPersist\w* | (?:LSTM|GRU|RNN)_elementWise\w* | elemWiseRNNcell\w*"),),
        "cuDNN's recurrent kernel, whose Tensor Core form has HMMA in its name",
        "cuDNN names (RNN_blockPersist_fp_LSTM and RNN_blockPersist_fp_LSTM_HMMA)",
    ),
    NameRule(
        "framework-kernel",
        "no",
        (
            seek(
                "function",
                r"""
                split_embedding\w* | op_generic_tensor\w* | op_tensor\w* | add_tensor\w* | cunn_\w+
                | cuCompute(?:GradInput|(?:Part)?GradGammaBeta) | genericReformat\w* | generatedNativePointwise
                | multi_tensor_apply\w* | xmma_pooling\w* | generate_seed_pseudo\w* | gen_sequenced\w* | ^curand\w*
                """,
            ),
            seek(
                "path",
                r"""
                (?<!\w)(?P<token> Eigen::internal | at::(?:native|cuda)
                | (?:Eigen|tensorflow|at|caffe2|thrust|cub|stream_executor|genericReformat)::
                | fbgemm_gpu::(?!\S{0,400}?(?:gemm|f8f8|i8i8|bf16x9)) | cusparse::(?!\S{0,400}?blocked)
                | CUTENSOR_NAMESPACE::\S{0,400}(?:permutation|elementwise)\w* )
                """,
                unless=FRAMEWORK_MULTIPLIES,
            ),
            seek("path", r"(?<!\w)cudnn::[\w:]+", unless=MULTIPLIES),
        ),
        "a framework's own pointwise, reduction, indexing or copy kernel",
        "sources of Eigen, TensorFlow, PyTorch (and apex's layer norm), Thrust and CUB: no MMA in them; cuRAND's names",
        multiplies=False,
    ),
    NameRule(
        "moves-or-maps",
        "no",
        (seek("words", whole_words(MOVES_OR_MAPS), unless=MULTIPLIES),),
        "pointwise work, a reduction or data movement by its words, and no word of a matrix product",
        "vocabulary of kernel names",
        multiplies=False,
    ),
)

# rules about kernels that multiply nothing
MOVING: Final = frozenset(rule.id for rule in NAME_RULES if not rule.multiplies)
# rules about kernels that move data between GPUs
COMMUNICATES: Final = frozenset({"collective"})
