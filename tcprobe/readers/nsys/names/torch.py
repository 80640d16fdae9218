"""What PyTorch's ranges mark: `emit_nvtx` (nsys: ``--pytorch=autograd-nvtx``), `record_function`, and DLProf's markers.

All are in the default domain. `emit_nvtx` writes NAME[, seq = N][, op_id = N][, sizes = [...]][, input_op_ids = [...]]
(getNvtxStr in torch/csrc/profiler/util.cpp; versions before 1.9 leave the last two or the op_id out), so that hardly
two texts are alike: `cut` and the SQL beside it take that off.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from tcprobe.jsonfile import LARGEST, whole
from tcprobe.readers.nsys.names.told import Told, joined

_SEQUENCE: Final = ", seq = "
_OP_ID: Final = ", op_id = "
_SIZES: Final = ", sizes = ["
_PRODUCERS: Final = ", input_op_ids = ["
_DIGITS: Final = re.compile("[0-9]{1,20}")

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


@dataclass(frozen=True, slots=True)
class Cut:
    """A text without PyTorch's numbers.

    Attributes:
        text: what is before them.
        sequence: that a backward op shares with its forward op; None where it has none.
        sizes: of its inputs, as written: ``[[64, 8], []]``; None without any.
    """

    text: str
    sequence: int | None = None
    sizes: str | None = None


def cut(text: str) -> Cut:
    """Take PyTorch's numbers off the text of a range of the default domain; other texts stay whole."""
    marks = [at for mark in (_SEQUENCE, _OP_ID, _SIZES) if (at := text.find(mark)) >= 0]
    if not marks:
        return Cut(text)
    return Cut(text[: marks[0]], _sequence(text), _sizes(text))


def _sequence(text: str) -> int | None:
    found = _DIGITS.match(text, text.index(_SEQUENCE) + len(_SEQUENCE)) if _SEQUENCE in text else None
    number = None if found is None else whole(found[0])
    return None if number == LARGEST else number


def _sizes(text: str) -> str | None:
    if _SIZES not in text:
        return None
    sizes = text[text.index(_SIZES) + len(_SIZES) - 1 :]
    end = sizes.find(_PRODUCERS)
    return sizes if end < 0 else sizes[:end]


def text_sql(column: str) -> str:
    """Return SQLite's expression for `Cut.text` of a column of texts; 0.25 s a million."""
    marks = (_SEQUENCE, _OP_ID, _SIZES)
    cases = "".join(f" WHEN {_at(column, mark)} THEN substr({column}, 1, {_at(column, mark)} - 1)" for mark in marks)
    return f"CASE{cases} ELSE {column} END"


def sequence_sql(column: str) -> str:
    """Return the expression for `Cut.sequence`."""
    number = f"substr({column}, {_at(column, _SEQUENCE)} + {len(_SEQUENCE)}, 20)"
    value = f"NULLIF(CAST({number} AS INTEGER), {LARGEST})"
    return f"CASE WHEN {_at(column, _SEQUENCE)} AND substr({number}, 1, 1) BETWEEN '0' AND '9' THEN {value} END"


def sizes_sql(column: str) -> str:
    """Return the expression for `Cut.sizes`."""
    rest = f"substr({column}, {_at(column, _SIZES)} + {len(_SIZES) - 1})"
    end = f"instr({rest}, '{_PRODUCERS}')"
    return f"CASE WHEN {_at(column, _SIZES)} THEN CASE WHEN {end} THEN substr({rest}, 1, {end} - 1) ELSE {rest} END END"


def _at(column: str, mark: str) -> str:
    return f"instr({column}, '{mark}')"


def torch_told(text: str) -> Told:
    """Tell a range of the default domain: an op or a phase of PyTorch's, or whatever a user named.

    Within a range of phase backward, an op's `ranges.sequence` is that of the forward op whose gradient it computes.
    """
    if text.startswith(("{'", '{"')):
        return _marker(text)
    if text.startswith(_BACKWARD):
        return Told("backward", "phase")
    if _OPERATOR.fullmatch(text) is not None or _NODE.fullmatch(text) is not None:
        return Told(text, "op", op_type=text)
    if (step := _STEP.fullmatch(text)) is not None:
        return Told(text, "step", whole(step[1]))
    if text.startswith(_LAYER) and len(text) > len(_LAYER):
        return Told(text.removeprefix(_LAYER).strip(), "layer")
    phase = next((name for pattern, name in _PHASES if pattern.fullmatch(text) is not None), None)
    return Told(text) if phase is None else Told(phase, "phase")


def _marker(text: str) -> Told:
    """Tell a marker of PyProf or DLProf; that of a module names its class, that of a stack its functions."""
    call = _CALL.match(text)
    if call is None:
        named = _MODULE.match(text) or _STACK.fullmatch(text)
        return Told(text if named is None else named[1])
    found = [(shape, dtype) for shape, dtype in _ARGUMENT.findall(text, call.end())]
    shapes = [[int(n) for n in re.findall("[0-9]{1,18}", shape)] if dtype else None for shape, dtype in found]
    told = json.dumps(shapes) if any(shape is not None for shape in shapes) else None
    return Told(call[2], "op", None, call[2], joined(dtype for _, dtype in found), told)
