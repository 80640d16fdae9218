"""Follows what has XLA cluster every function of the program: ``TF_XLA_FLAGS``, and TensorFlow's own switch."""

from __future__ import annotations

import ast
import re
from typing import Final

from tcprobe.audit.source.kinds import Arguments, Named
from tcprobe.audit.source.state import State
from tcprobe.source.values import Known

_AUTO_JIT: Final = re.compile(r"--tf_xla_auto_jit=(single-gpu\()?(1|2|fusible)\b")
_FLAGS: Final = "TF_XLA_FLAGS"
_ENVIRON: Final = "os.environ"
_SWITCH: Final = "tensorflow.config.optimizer.set_jit"
SETTERS: Final = (f"{_ENVIRON}.setdefault", f"{_ENVIRON}.update", "os.putenv", _SWITCH)
"""Functions that may set it."""


def note_flags(p: State, target: ast.expr, given: ast.expr) -> None:
    """Follow ``os.environ["TF_XLA_FLAGS"] = given``, also where it is put behind what is there already."""
    if isinstance(target, ast.Subscript) and _is_flags(target.slice) and p.look(target.value) == Named(_ENVIRON):
        _set(p, _clusters(p, given))


def note_set(p: State, name: str, given: Arguments, node: ast.Call) -> None:
    """Follow a call of one of `SETTERS`."""
    if name == _SWITCH:
        on = given.get(0, "enabled")
        _set(p, isinstance(on, Known) and bool(on.value))
        return
    told = [k.value for k in node.keywords if k.arg == _FLAGS]
    dictionary = node.args[0] if node.args else None
    if isinstance(dictionary, ast.Dict):
        told += [v for k, v in zip(dictionary.keys, dictionary.values, strict=True) if _is_flags(k)]
    elif len(node.args) > 1 and _is_flags(dictionary):
        told.append(node.args[1])
    for one in told:
        _set(p, _clusters(p, one))


def _is_flags(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == _FLAGS


def _clusters(p: State, node: ast.expr) -> bool:
    """Return whether a text asks for it; where it is not known, whether one of the texts that it is made of does."""
    value = p.look(node)
    texts = [value.value] if isinstance(value, Known) else [n.value for n in ast.walk(node) if type(n) is ast.Constant]
    return any(isinstance(text, str) and _AUTO_JIT.search(text) for text in texts)


def _set(p: State, on: bool) -> None:
    """Note whether it is on; not where the program may not come to that."""
    if not p.conditions and not p.doubts and not p.aside:
        p.auto_jit = on
