"""Translate shapes and dtypes from the form in which DLProf prints them into that of our tables."""

from __future__ import annotations

import json
import re
from typing import Final, TypeAlias

Shape: TypeAlias = list[int]

_SHAPE: Final = re.compile(r"<([^<>]*)>")
_LABELLED: Final = re.compile(r"\s*([A-Z]):([0-9]{1,15})\s*")
# NVIDIA TensorFlow's NVTX ranges spell bfloat16 so
_DTYPES: Final = {"bfloat32": "bfloat16", "half": "float16", "float": "float32", "double": "float64"}
# DLProf prints convolutions channels first, filters K C R S; TensorFlow's arithmetic takes N H W C and R S C K.
_TENSORFLOW_ORDER: Final = {"NCHW": "NHWC", "KCRS": "RSCK", "NKPQ": "NPQK"}
_TENSORFLOW_FORWARD: Final = re.compile(r"_?(?:Fused)?Conv2D")
_TENSORFLOW_CONV: Final = re.compile(r"(?>\w*?Conv[23]D)\w*+")


def dtype_of(text: str | None) -> str | None:
    """Return the contract's dtype of a Data Type cell; several are joined by +."""
    names = [_DTYPES.get(part.lower(), part) for part in re.split(r"[,;+\s]+", text or "") if part]
    return "+".join(dict.fromkeys(names)) or None


def shapes_of(text: str | None, op_type: str | None) -> str | None:
    """Return the contract's JSON list of shapes of an Input Shapes or Output Shapes cell.

    Labelled shapes of TensorFlow's Conv2D are put into TensorFlow's order of dimensions; labelled shapes of its
    other convolutions are not told, for which operand stands where is not known.

    Args:
        text: ``<N:32, C:3, H:32, W:32>; <K:6, C:3, R:3, S:3>; <6>``, or ``name: <64, 8>, name: <>``.
        op_type: type of the op.

    Returns:
        A list with null for a shape that is not told (DLProf prints a scalar as ``<0>``); None without any.
    """
    found = [_dimensions(match) for match in _SHAPE.findall(text or "")]
    if not found:
        return None
    shapes = [_ordered(labels, sizes, op_type or "") for labels, sizes in found]
    return None if all(shape is None for shape in shapes) else json.dumps(shapes)


def first_shape(text: str | None, op_type: str | None) -> str | None:
    """Return the first shape of a cell as a JSON list; None where it is not told."""
    shapes = json.loads(shapes_of(text, op_type) or "[]")
    return json.dumps(shapes[0]) if shapes and shapes[0] is not None else None


def _dimensions(inner: str) -> tuple[str, Shape | None]:
    """Return the labels (empty without) and sizes of one shape."""
    parts = [part for part in inner.split(",") if part.strip()]
    labelled = [_LABELLED.fullmatch(part) for part in parts]
    if parts and all(labelled):
        return "".join(m[1] for m in labelled if m), [int(m[2]) for m in labelled if m]
    plain = [part.strip() for part in parts]
    if plain == ["0"] or not all(re.fullmatch(r"[0-9]{1,15}", part) for part in plain):
        return "", None
    return "", [int(part) for part in plain]


def _ordered(labels: str, sizes: Shape | None, op_type: str) -> Shape | None:
    if sizes is None or not labels or not _TENSORFLOW_CONV.fullmatch(op_type):
        return sizes
    order = _TENSORFLOW_ORDER.get(labels) if _TENSORFLOW_FORWARD.fullmatch(op_type) else None
    return None if order is None else [sizes[labels.index(label)] for label in order]
