"""The op types that could use Tensor Cores, and how types of traced and executed ops correspond."""

from __future__ import annotations

import re

GEMM_TYPES = frozenset(
    (
        "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum Conv Conv2D Conv3D"
        " Conv2DBackpropInput Conv2DBackpropInputV2 Conv2DBackpropFilter Conv2DBackpropFilterV2"
        " Conv3DBackpropInput Conv3DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropFilterV2"
        " DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter"
        " CudnnRNN CudnnRNNV2 CudnnRNNV3 CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3"
        " XlaDot XlaDotV2 XlaConv XlaConvV2 SparseMatMul"
    ).split()
)
# A replaced type is a prefix before the one it stands for, as _MklNativeFusedMatMul or _FusedConv2D.
_PREFIX = re.compile(r"^_?(?:Mkl)?(?:Native)?(?:PadWith)?(?:Fused)?")
_SUFFIX = re.compile(r"(?:WithBias)?(?:V\d)?$")
_FAMILIES = frozenset(re.sub(r"V\d$", "", name) for name in GEMM_TYPES)


def family(op_type: str) -> str:
    """Return the type without version, fusion and library: ``_MklNativeFusedBatchMatMulV2`` -> ``BatchMatMul``."""
    return _SUFFIX.sub("", _PREFIX.sub("", op_type))


def is_gemm(op_type: str) -> bool:
    """Return whether an op of the optimised graph is one that could use Tensor Cores."""
    return op_type in GEMM_TYPES or family(op_type) in _FAMILIES


# Ops that grappler and oneDNN fold into the product before them; the fused op bears the name of the last.
FUSED_AFTER = frozenset(
    (
        "BiasAdd BiasAddV1 Add AddV2 AddN Sub Mul RealDiv Maximum Minimum ClipByValue Cast Identity Squeeze Reshape"
        " Relu Relu6 Elu LeakyRelu Tanh Sigmoid Erf Erfc Softplus Mish Gelu Swish Pow Square Const"
        " FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx BatchToSpaceND"
    ).split()
)
