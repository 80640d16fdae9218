"""`told`: what a range marks, by its NVTX domain and text. What the source does not say stays unknown.

Steps, phases, layers and ops are told of tcprobe's own ranges, PyTorch (`torch`), NVIDIA's TensorFlow and XLA
(`tensorflow`) and TensorRT. NCCL, MPI, cuDNN, cuBLAS and the domains of other libraries mark calls of a library,
which are neither op nor layer; so does a range that a user named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tcprobe.jsonfile import whole
from tcprobe.probe.constants import DOMAIN, LAYER_MARK, PHASES, STEP_MARK
from tcprobe.readers.nsys.names.tensorflow import tensorflow_told, xla_told
from tcprobe.readers.nsys.names.told import LONGEST, Told
from tcprobe.readers.nsys.names.torch import torch_told

_STEP: Final = re.compile(r"step ([0-9]{1,18})")
_TENSORRT_CALL: Final = re.compile(r"(?:TensorRT|\w*(?:Context|Engine|Builder|Runtime)(?:::\w++)++)")
_TENSORRT_COPY: Final = "Reformatting CopyNode"  # moves data between the model's layers
_ONNX_NODE: Final = re.compile(r"/(?:[^/]++/)*+([A-Z][A-Za-z]*)(?:_[0-9]+)?")


def told(domain: str | None, text: str) -> Told:
    """Return what a range tells of itself.

    Args:
        domain: of NVTX; None is the default one.
        text: of the range; without PyTorch's numbers, as `torch.cut` leaves it.
    """
    reader = _DOMAINS.get(domain)
    return Told(text) if reader is None or len(text) > LONGEST else reader(text)


def _own(text: str) -> Told:
    """Tell the ranges of tcprobe's probe; any other is a call of a function, which has no phase's name."""
    step = _STEP.fullmatch(text)
    if step is not None:
        return Told(STEP_MARK, "step", whole(step[1]))  # as in profiles of TensorFlow's, whose steps are the same
    if text in PHASES:
        return Told(text, "phase")
    if text.startswith(LAYER_MARK):
        return Told(text.removeprefix(LAYER_MARK), "layer")
    return Told(text)


def _tensorrt(text: str) -> Told:
    """Tell a layer of TensorRT's engine, which it names after the nodes of the network that it fused, joined by +.

    ``/layer1/conv1/Conv + /relu/Relu``. The type is that of the first node, whose result the others take, where its
    path ends with one as ONNX's exporters name nodes. A call of TensorRT (``ExecutionContext::execute``) is no op.
    """
    if _TENSORRT_CALL.fullmatch(text) is not None:
        return Told(text)
    if text.startswith(_TENSORRT_COPY):
        return Told(text, "op", op_type=_TENSORRT_COPY)
    node = _ONNX_NODE.fullmatch(text.split(" + ", 1)[0])
    return Told(text, "op", op_type=None if node is None else node[1])


_DOMAINS: Final[dict[str | None, Callable[[str], Told]]] = {
    None: torch_told,
    DOMAIN: _own,
    "tensorflow-core": tensorflow_told,
    "TSL": xla_told,
    "TensorRT": _tensorrt,
}
