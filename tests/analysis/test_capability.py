"""Which op types have Tensor Core kernels, and what keeps an op off them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.capability import NONE, operand_dtypes, supported_since, tc_blocker, tc_capable
from tcprobe.analysis.kernels.table import derive_kernels
from tcprobe.hardware import Gpu, find_gpu, load_gpus
from tcprobe.readers.protobuf import fields, text
from tcprobe.readers.xspace import xplane
from tcprobe.report.run import words
from tcprobe.schema.kinds import Blocker
from tests.support import shared

CAPABLE = (
    "MatMul",
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "_FusedMatMul",
    "_FusedBatchMatMulV2",
    "_MklNativeMatMul",
    "_MklNativeFusedMatMul",
    "_MklMatMul",
    "Einsum",
    "XlaEinsum",
    "Conv2D",
    "Conv3D",
    "Conv2DBackpropFilter",
    "Conv2DBackpropInput",
    "Conv3DBackpropFilterV2",
    "Conv3DBackpropInputV2",
    "_FusedConv2D",
    "_MklNativeFusedConv2D",
    "_MklNativeConv2DBackpropFilterWithBias",
    "FusedConv2DBiasActivation",
    "_FusedConv2DBiasActivation",
    "CudnnRNN",
    "CudnnRNNV2",
    "CudnnRNNV3",
    "CudnnRNNBackprop",
    "CudnnRNNBackpropV2",
    "BlockLSTM",
    "LSTMBlockCell",
    "GRUBlockCell",
    "XlaDot",
    "XlaDotV2",
    "XlaConv",
    "XlaConvV2",
    "dot",
    "convolution",
    "__cublas$gemm",
    "__cublas$lt$matmul",
    "__cublas$lt$matmul$f8",
    "__cudnn$convForward",
    "__cudnn$convBackwardFilter",
    "__cudnn$convBiasActivationForward",
    "__cudnn$fmhaSoftmax",
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::matmul",
    "aten::linear",
    "aten::convolution",
    "aten::cudnn_convolution",
    "aten::cudnn_convolution_backward_input",
    "aten::cudnn_convolution_transpose_backward_weight",
    "aten::convolution_backward",
    "aten::conv2d",
    "aten::_scaled_mm",
    "aten::_int_mm",
    "aten::_flash_attention_forward",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_cudnn_rnn",
    "conv2d",
    "linear",
    "matmul",
    "bmm",
)
NOT_CAPABLE = (
    "Relu",
    "BiasAdd",
    "FusedBatchNormV3",
    "_FusedBatchNormEx",
    "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropFilter",
    "_FusedDepthwiseConv2dNative",
    "CudnnRNNParamsSize",
    "CudnnRNNCanonicalToParamsV2",
    "MaxPool",
    "Cast",
    "ResourceApplyAdam",
    "SparseTensorDenseMatMul",
    "reduce",
    "transpose",
    "convert",
    "aten::relu",
    "aten::mul",
    "aten::add_",
    "aten::mv",
    "aten::dropout",
    "aten::to",
)
UNKNOWN = (
    "",
    None,
    "xla_run",
    "PartitionedCall",
    "StatefulPartitionedCall",
    "fusion",
    "custom-call",
    "while",
    "call",
    "QuantizedConv2D",
    "MyFusedAttention",
    "MmBackward0",
    "AddmmBackward0",
    "ConvolutionBackward0",
)


@pytest.mark.parametrize("op_type", CAPABLE)
def test_types_with_a_tensor_core_kernel(op_type: str) -> None:
    assert tc_capable(op_type) == "yes"


@pytest.mark.parametrize("op_type", NOT_CAPABLE)
def test_types_without_one(op_type: str) -> None:
    assert tc_capable(op_type) == "no"


@pytest.mark.parametrize("op_type", UNKNOWN)
def test_containers_and_strangers_that_speak_of_products(op_type: str | None) -> None:
    assert tc_capable(op_type) == "unknown"


def blocker(
    dtype: str | None, gpu: str | None = "a100-sxm-40", op_type: str | None = "MatMul", **given: Any
) -> Blocker:
    known = find_gpu(gpu) if gpu else None
    defaults = {
        "compute_capability": None,
        "tf32_allowed": True,
        "contiguous_dims_bytes_aligned": None,
        "uses_tc": None,
    }
    return tc_blocker(op_type, dtype, known, **{**defaults, **given})


def said(found: Blocker) -> tuple[str, str]:
    """The kind with its sentence."""
    return found.kind, words.blocker(found)


def test_float32_on_a_t4() -> None:
    assert said(blocker("float32", "t4")) == ("dtype", "float32 cannot use a T4's Tensor Cores")
    assert said(blocker("float32", None, compute_capability=(7, 0))) == (
        "dtype",
        "float32 cannot use the Tensor Cores of compute capability 7.0",
    )


def test_float32_on_ampere_needs_tf32() -> None:
    assert blocker("float32", tf32_allowed=True) == NONE
    assert said(blocker("float32", tf32_allowed=False)) == ("tf32", "TF32 off")
    assert blocker("float32", tf32_allowed=None).kind == "tf32_unknown"
    assert blocker("float16", tf32_allowed=False) == NONE


@pytest.mark.parametrize(
    ("dtype", "gpu", "able"),
    [
        ("float16", "v100-sxm2", True),
        ("bfloat16", "t4", False),
        ("bfloat16", "a100-sxm-40", True),
        ("int8", "t4", True),
        ("int8", "v100-sxm2", False),
        ("float64", "a100-sxm-40", True),
        ("float64", "rtx3090", False),
        ("float64", "h100-sxm", True),
        ("float8_e4m3fn", "a100-sxm-40", False),
        ("float8_e4m3fn", "l4", True),
    ],
)
def test_which_dtypes_each_generation_takes(dtype: str, gpu: str, able: bool) -> None:
    assert supported_since(dtype, find_gpu(gpu).compute_capability) is able
    assert (blocker(dtype, gpu).kind == "none") is able


def test_a_gpu_without_tensor_cores_comes_first() -> None:
    assert said(blocker("float32", "gtx1660ti", tf32_allowed=None)) == ("gpu", "GPU has no Tensor Cores")
    assert blocker("float16", None, compute_capability=(6, 0)).kind == "gpu"


def test_misalignment_alone_blocks_nothing_but_float8() -> None:
    assert blocker("float16", contiguous_dims_bytes_aligned=False) == NONE
    assert blocker("float8_e4m3fn", "h100-sxm", contiguous_dims_bytes_aligned=False).kind == "shape_required"
    ran = blocker("float16", contiguous_dims_bytes_aligned=False, uses_tc="no", kernel="ampere_hgemm_128x128_nn")
    assert ran.kind == "shape"
    assert ran.kernel == "ampere_hgemm_128x128_nn"
    assert "ampere_hgemm_128x128_nn" in words.blocker(ran)


def test_a_library_that_chose_otherwise_is_named() -> None:
    # one filter: cuDNN takes a direct kernel though everything would allow Tensor Cores
    found = blocker(
        "float16",
        "v100-sxm2",
        "Conv2D",
        contiguous_dims_bytes_aligned=True,
        uses_tc="no",
        kernel="conv2d_grouped_direct_kernel",
    )
    assert said(found) == ("library", "library choice: ran conv2d_grouped_direct_kernel")


def test_what_is_not_known_is_said() -> None:
    assert said(blocker(None)) == ("dtype_missing", "the dtype of the op is not recorded")
    assert said(blocker("float16", None)) == ("gpu_unknown", "the GPU is not known")
    assert said(blocker("float16", op_type="fusion")) == ("type_unknown", "fusion may hold ops of any kind")
    assert said(blocker("complex64")) == ("dtype_unknown", "whether Tensor Cores take complex64 is not known")
    assert blocker("float16", uses_tc="unknown").kind == "kernels_unknown"


def test_an_op_that_uses_them_has_no_blocker_and_one_that_cannot_says_so() -> None:
    assert blocker("float32", "t4", uses_tc="yes") == NONE
    assert said(blocker("float16", op_type="Relu")) == ("type", "Relu has no Tensor Core kernel")


@pytest.mark.parametrize(
    ("dtype", "operands"),
    [
        ("float16", ("float16",)),
        ("float32+int32", ("float32",)),
        ("float16+float32", ("float16", "float32")),
        ("half", ("float16",)),
        ("int32", ()),
        (None, ()),
    ],
)
def test_operands_of_a_mixed_dtype(dtype: str | None, operands: tuple[str, ...]) -> None:
    assert operand_dtypes(dtype) == operands


@given(
    op_type=st.sampled_from([*CAPABLE, *NOT_CAPABLE, *UNKNOWN]) | st.text(max_size=40),
    dtype=st.none() | st.sampled_from(["float32", "float16", "bfloat16", "float64", "int8", "float32+int32", "string"]),
    gpu=st.none() | st.sampled_from(load_gpus()),
    tf32=st.sampled_from([True, False, None]),
    aligned=st.sampled_from([True, False, None]),
    uses=st.sampled_from(["yes", "no", "unknown", None]),
)
def test_there_is_always_an_answer_in_words(
    op_type: str | None, dtype: str | None, gpu: Gpu | None, tf32: bool | None, aligned: bool | None, uses: str | None
) -> None:
    found = tc_blocker(
        op_type,
        dtype,
        gpu,
        compute_capability=None,
        tf32_allowed=tf32,
        contiguous_dims_bytes_aligned=aligned,
        uses_tc=uses,
    )
    assert words.blocker(found)
    assert (found.kind == "none") == (found == NONE)
    row = {"op_type": op_type or None, **found.columns()}
    assert Blocker.of(row) == found
    if gpu is not None and not gpu.tensor_cores and tc_capable(op_type) != "no" and uses != "yes":
        assert found.kind == "gpu"


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [("tf24_t4_alexnet_fp32", 51, 72), ("tf24_v100_alexnet_fp32", 49, 70), ("tf25_turing_chess_fp32", 58, 78)],
)
def test_what_tensorflow_calls_eligible_is_capable_and_more(name: str, theirs: int, ours: int) -> None:
    # TensorFlow goes by the end of the op's name and misses a _FusedConv2D named Relu, and MatMul_1
    data = shared(f"samples/xplane/{name}.kernel_stats.pb").read_bytes()
    eligible: set[tuple[str, str]] = set()
    for _, _, begin, end in fields(data, (0, len(data))):
        report = {n: v if wire == 0 else text(data, (v, w)) for n, wire, v, w in fields(data, (begin, end))}
        if report.get(11):
            eligible.add((str(report[1]), str(report[12]).partition(":")[0]))
    table = derive_kernels(xplane.read([shared(f"samples/xplane/{name}.xplane.pb")]))
    rows = zip(table.values("kernel"), table.values("op"), table.values("op_type"), strict=True)
    capable = {(kernel, op) for kernel, op, op_type in rows if tc_capable(str(op_type)) == "yes"}
    assert (len(eligible), len(capable)) == (theirs, ours)
    assert eligible <= capable
