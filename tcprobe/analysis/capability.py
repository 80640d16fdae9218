"""Say which ops could use Tensor Cores, and what keeps one that could from using them.

Capable is a matter of the op's *type*: a type with a Tensor Core kernel in cuBLAS, cuDNN or XLA. Op names say
nothing reliable (a fused convolution is named after its last op). Whether this op on this GPU could is the
blocker's business: dtype, GPU, TF32, shape, or the library's choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

from tcprobe.analysis.context import Context
from tcprobe.hardware import FIRST_WITH_TENSOR_CORES, Capability, Gpu
from tcprobe.rules.words import short_name
from tcprobe.schema.kinds import Blocker

Capable = Literal["yes", "no", "unknown"]

# TensorFlow: the allow list of its auto_mixed_precision pass, the fused forms that grappler makes of it, and the XLA
# ops of the bridge. Depthwise convolutions are left out there and here: they are no matrix product, and their kernels
# (cuDNN conv2d_c1_k1, TensorFlow's own) measure no Tensor Core activity.
_TENSORFLOW: Final = re.compile(
    r"_?(?:Mkl)?(?:Native)?_?(?:Fused)?(?:"
    r"MatMul|BatchMatMul(?:V[23])?|Einsum|Conv(?:2D|3D)?(?:Backprop(?:Filter|Input)(?:V2)?)?(?:BiasActivation|WithBias\w*)?"
    r")|CudnnRNN(?:V[23]|Backprop(?:V[23])?|Forward)?|BlockLSTM(?:V2|Grad(?:V2)?)?|(?:GRU|LSTM)(?:BlockCell)(?:Grad)?"
    r"|Xla(?:Dot(?:V2|General)?|Conv(?:V2)?|Einsum)|FusedConv2DBiasActivation"
)
# HLO opcodes, and the targets of custom calls by which XLA reaches cuBLAS and cuDNN
_XLA: Final = re.compile(
    r"dot|dot_general|dot-general|convolution|conv_general_dilated|ragged-dot|scaled-dot|__cublas\$\S*(?:gemm|matmul)\S*"
    r"|__cudnn\$(?:conv|fmha|blockScaledDot)\S*|__triton_gemm|gemm_fusion\S*"
)
_PYTORCH: Final = re.compile(
    r"(?:aten::)?_*(?:mm|bmm|addmm|baddbmm|addbmm|addmm_activation|int_mm|scaled_mm|grouped_mm|scaled_grouped_mm|matmul|linear|bilinear"
    r"|einsum|tensordot|chain_matmul|conv(?:_transpose)?[123]d|(?:cudnn_|mkldnn_|miopen_)?convolution"
    r"(?:_mode|_transpose|(?:_transpose)?_backward(?:_input|_weight)?|_overrideable|_relu|_add_relu|_double_backward)?|thnn_conv2d(?:_forward|_backward)?|slow_conv[23]d\w*"
    r"|scaled_dot_product_\w*attention\w*|(?:flash|efficient|cudnn)_attention_(?:forward|backward)|cudnn_rnn(?:_backward)?"
    r"|lstm|gru|rnn_(?:tanh|relu)|linear_backward)|flash_attn(?:_3)?::_?flash_attn_(?:varlen_)?(?:forward|backward)"
)
# The same types as DLProf writes them for PyTorch
_DLPROF: Final = re.compile(
    r"__matmul__|matmul|mm|bmm|addmm|baddbmm|addbmm|linear|conv(?:_transpose)?[123]d|lstm|gru|rnn|multi_head_attention_forward",
    re.IGNORECASE,
)
_CONTAINER: Final = re.compile(
    r"xla_run|_?XlaRun|_?XlaLaunch\w*|XlaMergeNode|_?XlaCompile\w*|(?:Stateful)?PartitionedCall|(?:Stateless)?(?:While|If|Case)|While|RemoteCall"
    r"|SymbolicGradient|fusion|custom-call|call|while|conditional|async-\w+|TRTEngineOp|_?FusedMHA\w*|simple_mode\w*|unknown|other",
    re.IGNORECASE,
)
_MULTIPLIES: Final = re.compile(
    r"matmul|gemm|conv(?!ert)|einsum|attention|lstm|gru(?![a-z])|rnn|linear|(?<![a-z])dot(?![a-z])|mm(?:backward|_|$|\d)",
    re.IGNORECASE,
)
# Ops that a package registers with PyTorch say nothing of what they compute.
_REGISTERED: Final = re.compile(r"(?!(?:aten|prims?|c10d|profiler|torchvision)::)\w+::.*", re.DOTALL)
# As ONNX names nodes, and TensorRT its layers
_ONNX: Final = re.compile(r"Gemm|Conv(?:Transpose)?")
_NEVER: Final = re.compile(
    r"\w*Depthwise\w*|CudnnRNN(?:Canonical|Params)\w*|SparseTensorDenseMatMul|\w*cudnn_rnn_flatten_weight|Linear(?:Interp|Space)\w*|LinSpace",
    re.IGNORECASE,
)

# Operand types of the Tensor Core instructions by compute capability. Source: PTX ISA, mma and wgmma; NVIDIA tuning
# guides; FP64 exists on the data-centre chips alone (8.0, 9.0, 10.x); sm_103 keeps a trace of FP64 only.
_SINCE: Final = {
    "float16": (7, 0),
    "int8": (7, 2),
    "uint8": (7, 2),
    "bfloat16": (8, 0),
    "float32": (8, 0),
    "float8": (8, 9),
    "float4": (10, 0),
}
_FP64_CAPABILITIES: Final = frozenset({(8, 0), (9, 0), (10, 0)})
_SHORT: Final = {
    "half": "float16", "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32", "float": "float32",
    "double": "float64", "fp64": "float64", "fp8": "float8", "fp4": "float4",
}  # fmt: skip
_INDEX_TYPES: Final = frozenset({"int32", "int64", "uint32", "uint64", "bool"})

NONE: Final = Blocker("none")


def tc_capable(op_type: str | None) -> Capable:
    """Say whether an op type has a Tensor Core kernel in the libraries that frameworks call.

    Args:
        op_type: TensorFlow op, HLO opcode or custom-call target, ATen op, or DLProf's op type.

    Returns:
        unknown for containers (a fusion, a called function) and for names that speak of a matrix product
        without being known; no for everything else.
    """
    if not op_type or _CONTAINER.fullmatch(op_type):
        return "unknown"
    if _NEVER.fullmatch(op_type):
        return "no"
    if any(known.fullmatch(op_type) for known in (_TENSORFLOW, _XLA, _PYTORCH, _DLPROF, _ONNX)):
        return "yes"
    return "unknown" if _MULTIPLIES.search(op_type) or _REGISTERED.fullmatch(op_type) else "no"


@lru_cache(maxsize=4096)
def operand_dtypes(dtype: str | None) -> tuple[str, ...]:
    """Return the dtypes of an op's operands as TensorFlow spells them, without those of indices."""
    parts = [_SHORT.get(p.strip().lower(), p.strip().lower()) for p in (dtype or "").split("+") if p.strip()]
    return tuple(dict.fromkeys(p for p in parts if p not in _INDEX_TYPES))


def supported_since(dtype: str, compute_capability: Capability) -> bool | None:
    """Say whether Tensor Cores of this compute capability multiply `dtype` (float32 as TF32); None where not known."""
    if dtype == "float64":
        return compute_capability in _FP64_CAPABILITIES
    family = next((name for name in _SINCE if dtype == name or dtype.startswith(f"{name}_")), None)
    if family is None:
        return False if dtype.startswith("complex128") else None
    return compute_capability >= _SINCE[family]


def dtype_blocker(
    dtype: str | None, gpu: Gpu | None, compute_capability: Capability, tf32_allowed: bool | None
) -> Blocker:
    """Say whether the dtype, or TF32 switched off, keeps an op off a GPU's Tensor Cores; `NONE` where neither does."""
    dtypes = operand_dtypes(dtype)
    if not dtypes:
        return Blocker("dtype_missing")
    for one in dtypes:
        able = supported_since(one, compute_capability)
        if able is False:
            at = None if gpu else "{}.{}".format(*compute_capability)
            return Blocker("dtype", dtype=one, gpu=gpu.name if gpu else None, compute_capability=at)
        if able is None:
            return Blocker("dtype_unknown", dtype=one)
    if "float32" in dtypes and tf32_allowed is not True:
        return Blocker("tf32" if tf32_allowed is False else "tf32_unknown")
    return NONE


def tc_blocker(
    op_type: str | None,
    dtype: str | None,
    gpu: Gpu | None,
    *,
    compute_capability: Capability | None,
    tf32_allowed: bool | None,
    contiguous_dims_bytes_aligned: bool | None,
    uses_tc: str | None,
    kernel: str | None = None,
) -> Blocker:
    """Say what keeps an op off the Tensor Cores.

    Args:
        op_type: as `tc_capable` takes it.
        dtype: of its inputs, joined by + where they differ.
        gpu: the GPU, where it is known.
        compute_capability: of the GPU; taken from `gpu` where None.
        tf32_allowed: whether float32 may be rounded to TF32; None where not known.
        contiguous_dims_bytes_aligned: whether the contiguous dimensions are multiples of 16 bytes. Since cuBLAS 11 and
            cuDNN 7.6.3 that is a matter of speed, not of use, except for float8, where it is a condition.
        uses_tc: what its kernels did: yes, no, unknown; None where nothing was measured.
        kernel: the kernel that ran without Tensor Cores.
    """
    capable = tc_capable(op_type)
    if capable == "no":
        return Blocker("type", op_type=op_type)
    if uses_tc == "yes":
        return NONE
    at = compute_capability or (gpu.compute_capability if gpu else None)
    if (gpu and not gpu.tensor_cores) or (at and at < FIRST_WITH_TENSOR_CORES):
        return Blocker("gpu")
    if at is None:
        return Blocker("gpu_unknown")
    if capable == "unknown":
        return Blocker("type_unknown", op_type=op_type or None)
    if (blocker := dtype_blocker(dtype, gpu, at, tf32_allowed)) != NONE:
        return blocker
    return _chosen(operand_dtypes(dtype), contiguous_dims_bytes_aligned, uses_tc, kernel)


def _chosen(dtypes: tuple[str, ...], aligned: bool | None, uses_tc: str | None, kernel: str | None) -> Blocker:
    """Return the blocker where GPU and dtype allow Tensor Cores: the shape, the library's choice, or none."""
    if aligned is False and any(d.startswith(("float8", "float4")) for d in dtypes):
        return Blocker("shape_required", dtype=dtypes[0])
    if uses_tc is None:
        return NONE
    if uses_tc == "unknown":
        return Blocker("kernels_unknown")
    return Blocker("shape" if aligned is False else "library", kernel=kernel)


def is_capable(op_types: Iterable[str | None]) -> str:
    """Return yes where one of an op's types has a Tensor Core kernel, no where none has, else unknown."""
    answers = {tc_capable(op_type) for op_type in op_types if op_type is not None}
    if "yes" in answers:
        return "yes"
    return "no" if answers == {"no"} else "unknown"


def why_not(
    op_type: str | None,
    dtype: str | None,
    context: Context,
    aligned: bool | None,
    uses_tc: str | None,
    kernel: str | None = None,
) -> Blocker:
    """Return what keeps a capable op off the Tensor Cores; of kind ``none`` where nothing does.

    Args:
        op_type, dtype: of the op.
        context: the GPU to judge against.
        aligned: whether its contiguous dimensions fill 16-byte units, where known.
        uses_tc: what its kernels did; None where nothing was measured.
        kernel: the costliest of its kernels without Tensor Cores, where known.
    """
    if not context.nvidia:
        return Blocker("not_nvidia")
    if context.tensor_cores == "no":
        return Blocker("gpu")
    return tc_blocker(
        op_type or "",
        dtype,
        context.gpu,
        compute_capability=context.compute_capability,
        tf32_allowed=context.tf32_allowed,
        contiguous_dims_bytes_aligned=aligned,
        uses_tc=uses_tc,
        kernel=None if kernel is None else short_name(kernel),
    )
