"""TC308: finds ops for which the library chose a kernel without Tensor Cores although precision and GPU allow them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.gemm.ops import conv_like
from tcprobe.rules.base import RuleDoc, Says
from tcprobe.rules.run.base import OffOp, RunSubject, text
from tcprobe.schema.advice import Advice

DOC: Final = RuleDoc(
    code="TC308",
    name="kernel-of-library",
    summary="A library chose a kernel without Tensor Cores, though precision, GPU and sizes allow them.",
    explanation=(
        "cuBLAS and cuDNN choose a kernel by heuristics or by timing. For small or thin operands, an unusual layout or "
        "a pass for which the library has no Tensor Core kernel, they take one that runs on CUDA cores. More channels, "
        "the layout NHWC, larger sizes or another compiler may lead to another choice.\n\n"
        "The library may be right: compare step times. A product with a vector is bound by memory and is not listed."
    ),
    severity="it counts the time of those kernels, at most.",
    bad="images = keras.layers.Conv2D(64, 3, data_format='channels_first')(images)\n",
    good="images = keras.layers.Conv2D(64, 3, data_format='channels_last')(images)\n",
    sources=(
        "docs/classification.md: which kernels' names tell that they run without Tensor Cores",
        "cuBLAS documentation, section Tensor Core Usage",
    ),
)


def _try(fields: Mapping[str, Any]) -> str:
    ways = ["8 or more channels", "NHWC layout"] if fields["convolution"] else ["larger sizes or a larger batch"]
    ways += [] if fields["compiled"] else ["XLA"]
    listed = ", ".join(ways[:-1]) + ("," * (len(ways) > 2)) + " or " * (len(ways) > 1) + ways[-1]
    return f"Try {listed}; then compare step times"


SAYS: Final[Says] = {"library": _try}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item for convolutions, and one for other ops."""
    groups: dict[bool, list[OffOp]] = {}
    for op in subject.blocked("library"):
        groups.setdefault(conv_like(text(op.row["op_type"])), []).append(op)
    for convolution, ops in groups.items():
        yield subject.item(DOC.code, "library", ops, convolution=convolution, compiled=subject.compiled)
