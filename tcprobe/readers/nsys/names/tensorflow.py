"""What the ranges of NVIDIA's TensorFlow (domain ``tensorflow-core``) and of XLA (domain ``TSL``) mark.

Sources: tensorflow/core/profiler/nvtx_utils.cc of NVIDIA/tensorflow, xla/service/gpu/runtime/annotation.cc of
openxla/xla. Stock TensorFlow marks no op of a graph; XLA marks modules and thunks in every CUDA build since 2.15.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tcprobe.jsonfile import parse, whole
from tcprobe.readers.nsys.names.told import Told

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
_MODULE: Final = re.compile(r"(?:^|,)hlo_module=([^,]+)(?:,program_id=([0-9]+))?$")
_NUMBER: Final = re.compile(r"(?:\.[0-9]++)++$")
# Instructions that say nothing of what they compute: the name of the framework's op does.
_GENERIC: Final = frozenset(("custom-call", "fusion", "call", "wrapped", "command_buffer"))


def tensorflow_told(text: str) -> Told:
    """Tell a range of NVIDIA's TensorFlow: an op, with shapes and dtype where they are recorded.

    Of XLA's clusters they name thunks likewise: ``fusion: cluster_0_1/xla_run/fusion.3``.
    """
    if text.startswith("{"):
        return _detailed(text)
    named = _NAMED.fullmatch(text)
    return Told(text) if named is None else Told(named[2], "op", op_type=named[1])


def _detailed(text: str) -> Told:
    head, attributes, rest = text.partition(_ATTRIBUTES)
    try:
        held = parse(head + "}" if attributes else text)
    except ValueError:
        return Told(text)
    held = held if isinstance(held, dict) else {}
    name, op_type = held.get("name"), held.get("op")
    if not isinstance(name, str) or not name or not isinstance(op_type, str) or not op_type:
        return Told(text)
    dtype = _DTYPE.search("{" + rest)
    return Told(name, "op", None, op_type, _dtype(dtype[1]) if dtype else None, _shapes(held.get("args")))


def _dtype(spelt: str) -> str | None:
    """Return the dtype: NVIDIA's TensorFlow spells bfloat16 as bfloat32, and older versions as protobuf does."""
    return None if spelt in _UNTOLD else _SPELT.get(spelt, spelt)


def _shapes(arguments: Any) -> str | None:
    """Return the shapes of the inputs; after ten, the list is cut off by a null, which ends it here too."""
    given = arguments if isinstance(arguments, list) else []
    shapes = [_shape(one.get("shape")) for one in given if isinstance(one, dict)]
    return json.dumps(shapes) if any(shape is not None for shape in shapes) else None


def _shape(given: Any) -> list[int] | None:
    if not isinstance(given, list) or any(type(size) is not int or size < 0 for size in given):
        return None
    return given


def xla_told(text: str) -> Told:
    """Tell a range of XLA: a thunk is an op, named as the framework named it, else after its HLO instruction.

    A module holds ops and is none, and neither is a compilation (``XlaCompile:``, ``XlaPass:``).
    """
    found = _FIELDS.fullmatch(text)
    if found is None:
        return Told(text)
    if found[1] == "XlaModule":
        return Told(_module(found[2]) or text)
    instruction, name = _HLO_OP.search(found[2]), _NAME.match(found[2])
    if instruction is None:
        return Told(text)
    path = name[1] if name is not None and name[1] else instruction[1]
    opcode = _NUMBER.sub("", instruction[1])
    generic = opcode in _GENERIC and path != instruction[1]
    return Told(path, "op", op_type=path.rpartition("/")[2] if generic else opcode)


def _module(fields: str) -> str | None:
    """Return a module with its program id, as an XSpace's metadata plane names it: ``jit_step(7)``."""
    found = _MODULE.search(fields)
    program = None if found is None else whole(found[2] or "")
    return None if found is None else found[1] if program is None else f"{found[1]}({program})"
