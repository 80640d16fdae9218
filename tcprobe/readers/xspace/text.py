"""Parse the strings of an XSpace: op paths, kernel configurations, copies, shapes."""

from __future__ import annotations

import json
import re
from typing import Final

from tcprobe.gemm.record import join_dtypes
from tcprobe.jsonfile import whole

# ParseTfOpFullname of xla/tsl/profiler/utils/tf_op_utils.cc: `path:Type`, one colon, no C++ scope
_OP: Final = re.compile(r"([^\s:$][^\s:]*):([A-Za-z_]\w*)")
_DETAIL: Final = re.compile(r"(?<!\w)(\w++):(\S+)")
_SHAPE: Final = re.compile(r"(\w++)\[([^\]]*+)\]")
_MODULE: Final = re.compile(r"\((\d{1,20})\)$")

DTYPES: Final = {"float": "float32", "double": "float64", "half": "float16"}
MEMORY_KINDS: Final = ("MemcpyH2D", "MemcpyD2H", "MemcpyD2D", "MemcpyP2P", "Memset")


def split_op(name: str) -> tuple[str, str | None]:
    """Return op path and op type of an annotation (``a/b/MatMul:MatMul``), the type None where it has none.

    Metadata behind ``#`` is left out.
    """
    name = name.partition("#")[0].strip()
    path, colon, kind = name.rpartition(":")
    if not colon:
        return name, None
    return path, kind.strip() or None


def executor_op(name: str) -> tuple[str, str] | None:
    """Return path and type where a host event is an op run by TensorFlow's executor; None for all others."""
    found = _OP.fullmatch(name.partition("#")[0])
    return (found[1], found[2]) if found else None


def kernel_config(details: str) -> dict[str, str | float | None]:
    """Return a row of `launch_configs` from a stat ``kernel_details``.

    TensorFlow up to 2.5 writes only the static shared memory, as ``shm`` (device_tracer of that time); ROCm writes
    ``group_mem`` for it and no registers.
    """
    found = dict(_DETAIL.findall(details))
    shared = found.get("static_shared", found.get("shm", found.get("group_mem")))
    return {
        "registers": _whole(found.get("regs")),
        "static_shared_bytes": _whole(shared),
        "dynamic_shared_bytes": _whole(found.get("dynamic_shared")),
        "block": found.get("block"),
        "grid": found.get("grid"),
        "occupancy_pct": _positive(found.get("occ_pct")),
    }


def _whole(value: str | None) -> float | None:
    return float(value) if value is not None and value.isdecimal() and len(value) < 16 else None


def _positive(value: str | None) -> float | None:
    """Return an occupancy; the writers put 0 where it could not be computed."""
    try:
        number = float(value or 0)
    except ValueError:
        return None
    return number if 0 < number <= 100 else None


def memory_size(details: str) -> int | None:
    """Return the bytes that a copy, set or allocation names (``size:4096`` or ``num_bytes:4096``)."""
    found = dict(_DETAIL.findall(details))
    size = found.get("size", found.get("num_bytes"))
    return int(size) if size is not None and size.isdecimal() and len(size) < 16 else None


def memory_kind(name: str) -> str:
    """Return the kind of memory operation that an event name tells."""
    return next((kind for kind in MEMORY_KINDS if name.startswith(kind)), "other")


def parse_shapes(text: str) -> tuple[str | None, str | None]:
    """Return dtype and JSON list of shapes from a stat ``shape`` such as ``(float[64,3];float[3,10])``.

    Only complete lists count: an input that is no tensor shape makes both None. Unknown dimensions are null.
    """
    inner = text.strip().removeprefix("(").removesuffix(")")
    parts = [part.strip() for part in inner.split(";")] if inner else []
    found = [_SHAPE.fullmatch(part) for part in parts]
    if not found or not all(found):
        return None, None
    dtypes = [DTYPES.get(m[1], m[1]) for m in found if m]
    shapes = [[whole(d.strip()) for d in m[2].split(",") if d.strip()] for m in found if m]
    return join_dtypes(dtypes), json.dumps(shapes)


def program_id(module: str) -> int | None:
    """Return the program id behind a module name as /host:metadata writes it (``jit_step(36)``)."""
    found = _MODULE.search(module)
    return whole(found[1]) if found else None
