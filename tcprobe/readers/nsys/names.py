"""What a range marks, by its NVTX domain and text. What the source does not say stays unknown.

Steps, phases, layers and ops are told of tcprobe's own ranges, PyTorch, NVIDIA's TensorFlow, XLA and TensorRT. NCCL,
MPI, cuDNN, cuBLAS and the domains of other libraries mark calls of a library, which are neither op nor layer; so does
a range that a user named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from tcprobe.gemm.record import join_dtypes
from tcprobe.jsonfile import LARGEST, Count, Text, parse, record, records, whole
from tcprobe.probe.constants import DOMAIN, LAYER_MARK, PHASES, STEP_MARK

RangeKind: TypeAlias = Literal["step", "phase", "layer", "op"]
LONGEST: Final = 1 << 16
"""Characters of a text that is parsed; what NVTX and XLA write is cut off below (65,330, says XLA's annotation.cc)."""


class RangeName(Struct, frozen=True):
    """What a range marks, as far as its domain and text say so."""

    # as `ranges.name` has it: of an op or layer its path, or the part of it below the range around; of a phase forward,
    # backward, optimizer, validation or input
    name: str
    kind: RangeKind | None = None  # None where the source does not say what it marks
    step: int | None = None  # number of a step
    op_type: str | None = None  # type of an op
    dtype: str | None = None  # of its inputs; several are joined by +
    input_shapes: str | None = None  # of its inputs, as a JSON list with null for one that is not known


def name_of_range(domain: str | None, text: str) -> RangeName:
    """Return what a range tells of itself.

    Args:
        domain: of NVTX; None is the default one.
        text: of the range; without PyTorch's numbers, as `cut_sql` leaves it.
    """
    reader = _DOMAINS.get(domain)
    return RangeName(text) if reader is None or len(text) > LONGEST else reader(text)


# PyTorch: `emit_nvtx` (nsys: --pytorch=autograd-nvtx), `record_function`, and DLProf's markers, all in the default
# domain. `emit_nvtx` writes NAME[, seq = N][, op_id = N][, sizes = [...]][, input_op_ids = [...]] (getNvtxStr in
# torch/csrc/profiler/util.cpp; versions before 1.9 leave the last two or the op_id out): hardly two texts are alike.
_SEQUENCE: Final = ", seq = "
_OP_ID: Final = ", op_id = "
_SIZES: Final = ", sizes = ["
_PRODUCERS: Final = ", input_op_ids = ["
_BACKWARD: Final = "autograd::engine::evaluate_function: "  # torch/csrc/autograd/engine.cpp
# Names of registered operators (namespace::name), and of nodes of the gradient: generated ones end in a number since
# 1.9 (tools/autograd/gen_autograd_functions.py), those of autograd.Function in Backward (torch/autograd/function.py).
_OPERATOR: Final = re.compile(r"[a-z_][a-z0-9_]*(?:::[A-Za-z_]\w*+)++", re.ASCII)
_NODE: Final = re.compile(r"[A-Z]\w*Backward[0-9]*", re.ASCII)
_STEP: Final = re.compile(r"ProfilerStep#([0-9]{1,18})")  # torch/profiler/profiler.py
# torch/optim/optimizer.py and torch/utils/data/dataloader.py
_PHASES: Final = (
    (re.compile(r"Optimizer\.step#.*", re.DOTALL), "optimizer"),
    (re.compile(r"enumerate\(DataLoader\)#.*", re.DOTALL), "input"),
)
_LAYER: Final = "layer:"  # the prefix that PyProf asks users for
# PyProf and DLProf mark each call of a function by what str() or JSON makes of a dict (pyprof/nvtx/nvmarker.py).
_CALL: Final = re.compile(r"""\{["']mod["']: ["']([\w.]+)["'], ["']op["']: ["'](\w+)["'], ["']args["']: \[""")
_ARGUMENT: Final = re.compile(
    r"""\{["']name["']: ["']\w*["'], ["']type["']: ["']\w+["']"""
    r"""(?:, ["']shape["']: [\[(]([0-9, ]*)[\])], ["']dtype["']: ["'](\w+)["'])?"""
)
_MODULE: Final = re.compile(r"""\{["']mod["']: ["']([\w.]+)["'], ["']strRepr["']: """)
_STACK: Final = re.compile(r"""\{["']traceMarker["']: .*["']funcStack["']: ["']([^"']+)["']\}""", re.DOTALL)


def cut_sql(column: str) -> tuple[str, str, str]:
    """Return SQLite's expressions for the parts of a text of PyTorch's; 0.25 s a million.

    They are the text before its numbers; the sizes of the inputs as written (``[[64, 8], []]``), NULL without any; and
    the number that a backward op shares with its forward op, NULL without one.
    """
    at = {mark: f"instr({column}, '{mark}')" for mark in (_SEQUENCE, _OP_ID, _SIZES)}
    cases = "".join(f" WHEN {place} THEN substr({column}, 1, {place} - 1)" for place in at.values())
    rest = f"substr({column}, {at[_SIZES]} + {len(_SIZES) - 1})"
    end = f"instr({rest}, '{_PRODUCERS}')"
    sizes = f"CASE WHEN {at[_SIZES]} THEN CASE WHEN {end} THEN substr({rest}, 1, {end} - 1) ELSE {rest} END END"
    digits = f"substr({column}, {at[_SEQUENCE]} + {len(_SEQUENCE)}, 20)"
    number = f"NULLIF(CAST({digits} AS INTEGER), {LARGEST})"
    sequence = f"CASE WHEN {at[_SEQUENCE]} AND substr({digits}, 1, 1) BETWEEN '0' AND '9' THEN {number} END"
    return f"CASE{cases} ELSE {column} END", sizes, sequence


def _torch(text: str) -> RangeName:
    """Tell a range of the default domain: an op or a phase of PyTorch's, or whatever a user named.

    Within a range of phase backward, an op's `ranges.sequence` is that of the forward op whose gradient it computes.
    """
    if text.startswith(("{'", '{"')):
        return _marker(text)
    if text.startswith(_BACKWARD):
        return RangeName("backward", "phase")
    if _OPERATOR.fullmatch(text) is not None or _NODE.fullmatch(text) is not None:
        return RangeName(text, "op", op_type=text)
    if (step := _STEP.fullmatch(text)) is not None:
        return RangeName(text, "step", whole(step[1]))
    if text.startswith(_LAYER) and len(text) > len(_LAYER):
        return RangeName(text.removeprefix(_LAYER).strip(), "layer")
    phase = next((name for pattern, name in _PHASES if pattern.fullmatch(text) is not None), None)
    return RangeName(text) if phase is None else RangeName(phase, "phase")


def _marker(text: str) -> RangeName:
    """Tell a marker of PyProf or DLProf; that of a module names its class, that of a stack its functions."""
    call = _CALL.match(text)
    if call is None:
        named = _MODULE.match(text) or _STACK.fullmatch(text)
        return RangeName(text if named is None else named[1])
    found = _ARGUMENT.findall(text, call.end())
    shapes = [[int(n) for n in re.findall("[0-9]{1,18}", shape)] if dtype else None for shape, dtype in found]
    return RangeName(call[2], "op", None, call[2], join_dtypes(dtype for _, dtype in found), _json(shapes))


# NVIDIA's TensorFlow (tensorflow/core/profiler/nvtx_utils.cc) and XLA (xla/service/gpu/runtime/annotation.cc). Stock
# TensorFlow marks no op of a graph; XLA marks modules and thunks in every CUDA build since 2.15.
_NAMED: Final = re.compile(r"([A-Za-z_][\w.>-]*): (\S.*)", re.DOTALL | re.ASCII)
# With TF_ENABLE_NVTX_RANGES_DETAILED=1: {"op":...,"name":...,"args":[{"name":...,"shape":[..]}],"attrs":{...}}. What
# stands in attrs need not be JSON (shapes with ?, strings as protobuf escapes them), so that it is read apart.
_ATTRIBUTES: Final = ',"attrs":{'
_DTYPE: Final = re.compile(r'[{,]"T":"([a-z]+[0-9]*)&?"')
_SPELT: Final = {"bfloat32": "bfloat16", "half": "float16", "float": "float32", "double": "float64"}
_UNTOLD: Final = frozenset(("unknown", "object"))

_FIELDS: Final = re.compile(r"(XlaModule|Thunk):#(.*?)#?", re.DOTALL)
_HLO_OP: Final = re.compile(r"(?:^|,)hlo_op=([^,]+)")
_NAME: Final = re.compile(r"^name=(.*?),hlo_op=", re.DOTALL)
_XLA_MODULE: Final = re.compile(r"(?:^|,)hlo_module=([^,]+)(?:,program_id=([0-9]+))?$")
_NUMBER: Final = re.compile(r"(?:\.[0-9]++)++$")
# Instructions that say nothing of what they compute: the name of the framework's op does.
_GENERIC: Final = frozenset(("custom-call", "fusion", "call", "wrapped", "command_buffer"))


def _tensorflow(text: str) -> RangeName:
    """Tell a range of NVIDIA's TensorFlow: an op, with shapes and dtype where they are recorded.

    Of XLA's clusters they name thunks likewise: ``fusion: cluster_0_1/xla_run/fusion.3``.
    """
    if text.startswith("{"):
        return _detailed(text)
    named = _NAMED.fullmatch(text)
    return RangeName(text) if named is None else RangeName(named[2], "op", op_type=named[1])


class _Argument(Struct):
    shape: list[Count] | None = None


class _Op(Struct):
    name: Text
    op: Text
    args: list[Any] = []


def _detailed(text: str) -> RangeName:
    """Tell an op with its shapes; after ten inputs, the list is cut off by a null, which ends it here too."""
    head, attributes, rest = text.partition(_ATTRIBUTES)
    try:
        op = record(_Op, parse(head + "}" if attributes else text))
    except ValueError:
        op = None
    if op is None:
        return RangeName(text)
    dtype = _DTYPE.search("{" + rest)
    shapes = [one.shape for one in records(_Argument, op.args)]
    return RangeName(op.name, "op", None, op.op, _dtype(dtype[1]) if dtype else None, _json(shapes))


def _dtype(spelt: str) -> str | None:
    """Return the dtype: NVIDIA's TensorFlow spells bfloat16 as bfloat32, and older versions as protobuf does."""
    return None if spelt in _UNTOLD else _SPELT.get(spelt, spelt)


def _json(shapes: list[list[int] | None]) -> str | None:
    return json.dumps(shapes) if any(shape is not None for shape in shapes) else None


def _xla(text: str) -> RangeName:
    """Tell a range of XLA: a thunk is an op, named as the framework named it, else after its HLO instruction.

    A module holds ops and is none, and neither is a compilation (``XlaCompile:``, ``XlaPass:``).
    """
    found = _FIELDS.fullmatch(text)
    if found is None:
        return RangeName(text)
    if found[1] == "XlaModule":
        return RangeName(_module(found[2]) or text)
    instruction, name = _HLO_OP.search(found[2]), _NAME.match(found[2])
    if instruction is None:
        return RangeName(text)
    path = name[1] if name is not None and name[1] else instruction[1]
    opcode = _NUMBER.sub("", instruction[1])
    generic = opcode in _GENERIC and path != instruction[1]
    return RangeName(path, "op", op_type=path.rpartition("/")[2] if generic else opcode)


def _module(fields: str) -> str | None:
    """Return a module with its program id, as an XSpace's metadata plane names it: ``jit_step(7)``."""
    found = _XLA_MODULE.search(fields)
    if found is None:
        return None
    program = whole(found[2] or "")
    return found[1] if program is None else f"{found[1]}({program})"


_OWN_STEP: Final = re.compile(r"step ([0-9]{1,18})")
_TENSORRT_CALL: Final = re.compile(r"(?:TensorRT|\w*(?:Context|Engine|Builder|Runtime)(?:::\w++)++)")
_TENSORRT_COPY: Final = "Reformatting CopyNode"  # moves data between the model's layers
_ONNX_NODE: Final = re.compile(r"/(?:[^/]++/)*+([A-Z][A-Za-z]*)(?:_[0-9]+)?")


def _own(text: str) -> RangeName:
    """Tell the ranges of tcprobe's probe; any other is a call of a function, which has no phase's name."""
    step = _OWN_STEP.fullmatch(text)
    if step is not None:
        return RangeName(STEP_MARK, "step", whole(step[1]))  # as in profiles of TensorFlow's, whose steps are the same
    if text in PHASES:
        return RangeName(text, "phase")
    if text.startswith(LAYER_MARK):
        return RangeName(text.removeprefix(LAYER_MARK), "layer")
    return RangeName(text)


def _tensorrt(text: str) -> RangeName:
    """Tell a layer of TensorRT's engine, which it names after the nodes of the network that it fused, joined by +.

    ``/layer1/conv1/Conv + /relu/Relu``. The type is that of the first node, whose result the others take, where its
    path ends with one as ONNX's exporters name nodes. A call of TensorRT (``ExecutionContext::execute``) is no op.
    """
    if _TENSORRT_CALL.fullmatch(text) is not None:
        return RangeName(text)
    if text.startswith(_TENSORRT_COPY):
        return RangeName(text, "op", op_type=_TENSORRT_COPY)
    node = _ONNX_NODE.fullmatch(text.split(" + ", 1)[0])
    return RangeName(text, "op", op_type=None if node is None else node[1])


_DOMAINS: Final[dict[str | None, Callable[[str], RangeName]]] = {
    None: _torch,
    DOMAIN: _own,
    "tensorflow-core": _tensorflow,
    "TSL": _xla,
    "TensorRT": _tensorrt,
}
