"""What trains as the program is followed: each `fit`, and the loops that train by tapes or batch by batch.

What has XLA cluster every function is followed too: ``TF_XLA_FLAGS``, and TensorFlow's own switch.
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
        _set(p, type(on) is Known and bool(on.value))
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
    texts = [value.value] if type(value) is Known else [n.value for n in ast.walk(node) if type(n) is ast.Constant]
    return any(isinstance(text, str) and _AUTO_JIT.search(text) for text in texts)


def _set(p: State, on: bool) -> None:
    """Note whether it is on; not where the program may not come to that."""
    if not p.conditions and not p.doubts and not p.aside:
        p.auto_jit = on


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
