"""What trains as the program is followed: each `fit`, and the loops that train by tapes or batch by batch.

What has XLA cluster every function is followed too, and what forbids TF32: variables of the environment, and
TensorFlow's own switches.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from tcprobe.audit.source.kinds import NOTHING, Arguments, Named, SourceValue, Tensor, Training, Unknown
from tcprobe.audit.source.state import Left, State
from tcprobe.audit.source.values import size_from, unparsed
from tcprobe.source.values import Known

_AUTO_JIT: Final = re.compile(r"--tf_xla_auto_jit=(single-gpu\()?(1|2|fusible)\b")
_FLAGS: Final = "TF_XLA_FLAGS"
_ENVIRON: Final = "os.environ"
_TF32: Final = "NVIDIA_TF32_OVERRIDE"
_SWITCH: Final = "tensorflow.config.optimizer.set_jit"
_TF32_SWITCH: Final = "tensorflow.config.experimental.enable_tensor_float_32_execution"
SETTERS: Final = (f"{_ENVIRON}.setdefault", f"{_ENVIRON}.update", "os.putenv", _SWITCH, _TF32_SWITCH)
"""Functions that may set one of them."""


def note_flags(p: State, target: ast.expr, given: ast.expr) -> None:
    """Follow ``os.environ["TF_XLA_FLAGS"] = given``, also where it is put behind what is there already."""
    if isinstance(target, ast.Subscript) and _variable(target.slice) and p.look(target.value) == Named(_ENVIRON):
        _set_variable(p, _variable(target.slice), given)


def note_set(p: State, name: str, given: Arguments, node: ast.Call) -> None:
    """Follow a call of one of `SETTERS`."""
    if name in (_SWITCH, _TF32_SWITCH):
        on = given.get(0, "enabled")
        told = bool(on.value) if type(on) is Known else None
        if name == _SWITCH:
            _set(p, auto_jit=bool(told))
        elif told is not None:
            _set(p, tf32_off=not told)
        return
    variables = [(k.arg, k.value) for k in node.keywords]
    dictionary = node.args[0] if node.args else None
    if isinstance(dictionary, ast.Dict):
        variables += [(_variable(k), v) for k, v in zip(dictionary.keys, dictionary.values, strict=True)]
    elif len(node.args) > 1:
        variables.append((_variable(dictionary), node.args[1]))
    for variable, value in variables:
        _set_variable(p, variable, value)


def _variable(node: ast.expr | None) -> str | None:
    """Return the variable of the environment that is named, where it is one that counts."""
    return str(node.value) if isinstance(node, ast.Constant) and node.value in (_FLAGS, _TF32) else None


def _set_variable(p: State, name: str | None, node: ast.expr) -> None:
    """Note a variable of the environment, where it is one that counts."""
    if name == _FLAGS:
        _set(p, auto_jit=_clusters(p, node))
    elif name == _TF32:
        value = p.look(node)
        _set(p, tf32_off=type(value) is Known and value.value == "0")


def _clusters(p: State, node: ast.expr) -> bool:
    """Return whether a text asks for it; where it is not known, whether one of the texts that it is made of does."""
    value = p.look(node)
    texts = [value.value] if type(value) is Known else [n.value for n in ast.walk(node) if type(n) is ast.Constant]
    return any(isinstance(text, str) and _AUTO_JIT.search(text) for text in texts)


def _set(p: State, *, auto_jit: bool | None = None, tf32_off: bool | None = None) -> None:
    """Note what is known of one of them; not where the program may not come to that."""
    if not p.conditions and not p.doubts and not p.aside:
        p.auto_jit = p.auto_jit if auto_jit is None else auto_jit
        p.tf32_off = p.tf32_off if tf32_off is None else tf32_off


MOST_TRAININGS: Final = 64
"""Calls of `fit`, and loops, that are told apart; of more, nobody reads the steps one by one."""
_FITS: Final = ("fit", "fit_generator")
_BATCH: Final = "train_on_batch"
_LOSS: Final = re.compile(r"(?i)loss|criterion|entropy|penalty|metric|mse|bce|optimi[sz]er|opt\b|accuracy")
"""What is called where gradients are taken and is no model."""
_TAPE: Final = "GradientTape"


def note_training(p: State, of: SourceValue, name: str, given: Arguments, node: ast.Call) -> None:
    """Note a method of a model's, where it trains."""
    if name == _BATCH:
        _trains(p, p.loop or p.unlooped, node).models[id(of)] = of
    elif name in _FITS:
        fit = _trains(p, Training(node, fits=True), node)
        fit.models[id(of)] = of
        fit.batch = size_from(given.get(2, "batch_size") or NOTHING)


def note_unknown(p: State, func: SourceValue, node: ast.Call) -> None:
    """Note that what trains may be any model: one that is not known is fitted, or called where gradients are taken."""
    if type(func) is Unknown:
        fits = isinstance(node.func, ast.Attribute) and node.func.attr in (*_FITS, _BATCH)
        p.trains_unknown = p.trains_unknown or fits or (p.taped > 0 and not _LOSS.search(unparsed(node.func)))


def note_tape(p: State, opened: ast.expr) -> bool:
    """Return whether what ``with`` opens is a tape, and note that the loop around it trains."""
    func = opened.func if isinstance(opened, ast.Call) else None
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if name != _TAPE or p.aside:
        return False
    _trains(p, p.loop or p.unlooped, _caller(p) or opened).tapes = True
    return True


def _trains(p: State, training: Training, node: ast.AST) -> Training:
    """Return what trains, which is listed from its first call on."""
    if training.place is None and len(p.trainings) < MOST_TRAININGS:
        training.place = p.here.place(node)
        training.frozen = frozenset(draft.name for draft in p.layers.drafts if draft.trainable is False)
        p.trainings.append(training)
    return training


def _caller(p: State) -> ast.Call | None:
    """Return the call that runs the function which is followed; None outside any, and where another file has it."""
    own = len(p.frames) < 2 or p.frames[-2].env.home is p.here
    return p.calling[-1] if p.frames and p.calling and own else None


def running(p: State) -> Training | None:
    """Return the loop that runs, else what takes gradients outside any; None where neither does."""
    return p.loop or (p.unlooped if p.taped else None)


def note_called(p: State, target: SourceValue, tensors: Iterable[Tensor]) -> None:
    """Note that a loop that may train calls a layer or model with tensors, where no other model does."""
    training = running(p)
    if training is not None and not p.in_model and not p.aside:
        training.models[id(target)] = target
        note_rows(training, tensors)


def note_rows(training: Training | None, tensors: Iterable[Tensor]) -> None:
    """Note how many samples of data something is called with; one alone is a demonstration."""
    if training is not None:
        data = (t for t in tensors if t.fresh and not t.symbolic and t.samples and t.shape)
        training.rows.update(t.shape[0] for t in data if t.shape and t.shape[0] is not None and t.shape[0] > 1)


def looping(follow: Callable[[State, Any], Left]) -> Callable[[State, Any], Left]:
    """Return a way to follow a loop which notes what it trains, where no loop is around it."""

    def followed(p: State, node: Any) -> Left:
        if p.loop is not None or p.aside:
            return follow(p, node)
        p.loop = Training(node, made=len(p.layers.drafts))
        left = follow(p, node)
        p.loop = None
        return left

    return followed


def begin_turn(p: State, node: ast.AST) -> None:
    """Tell what a loop trains from what it trained before, where it has made other layers for that."""
    loop = p.loop
    if loop is not None and loop.node is node and len(p.layers.drafts) > loop.made:
        p.loop = Training(node, made=len(p.layers.drafts))
