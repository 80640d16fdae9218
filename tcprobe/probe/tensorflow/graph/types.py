"""Lists the op types that could use Tensor Cores, and tells which types of executed ops they become."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict

_PROBE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _table() -> Dict[str, Any]:
    """Return the table that lies beside the probe; an empty one where it does not, and no product is recorded."""
    try:
        with open(os.path.join(os.path.dirname(_PROBE), "op_types.json"), encoding="utf-8") as file:
            table: Dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {"counted": {}, "uncounted": [], "replaced": ""}
    return table


_TABLE = _table()
GEMM_TYPES = frozenset(_TABLE["uncounted"]).union(*_TABLE["counted"].values())
_PREFIX = re.compile("^" + _TABLE["replaced"])
_SUFFIX = re.compile(r"(?:WithBias)?(?:V\d)?$")
_FAMILIES = frozenset(re.sub(r"V\d$", "", name) for name in GEMM_TYPES)


def bare_type(op_type: str) -> str:
    """Return the type without version, fusion and library: ``_MklNativeFusedBatchMatMulV2`` -> ``BatchMatMul``."""
    return _SUFFIX.sub("", _PREFIX.sub("", op_type))


def is_gemm(op_type: str) -> bool:
    """Return whether an op of the optimised graph is one that could use Tensor Cores."""
    return op_type in GEMM_TYPES or bare_type(op_type) in _FAMILIES


# Ops that grappler and oneDNN fold into the product before them; the fused op bears the name of the last.
FUSED_AFTER = frozenset(
    (
        "BiasAdd BiasAddV1 Add AddV2 AddN Sub Mul RealDiv Maximum Minimum ClipByValue Cast Identity Squeeze Reshape"
        " Relu Relu6 Elu LeakyRelu Tanh Sigmoid Erf Erfc Softplus Mish Gelu Swish Pow Square Const"
        " FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx BatchToSpaceND"
    ).split()
)
