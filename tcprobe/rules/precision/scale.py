"""Find loss scaling in source code: wrapped optimizers, scaled losses, scaling by hand."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tcprobe.rules.precision.policy import name_of, number_of
from tcprobe.rules.precision.tree import Parents, keyword

if TYPE_CHECKING:
    from tcprobe.source.source import Source

SCALED: Final = frozenset({"scale_loss", "get_scaled_loss", "get_unscaled_gradients"})
SMALLEST_SCALE: Final = 8.0  # a smaller factor weighs a loss against others and is not a loss scale

_WRAPPER: Final = re.compile(r"keras\.(?:\w++\.)*LossScaleOptimizer(?:V3)?")
_BY_HAND: Final = re.compile(r"loss_?scal|scaled?_?loss|grad\w*_?scal|scaled?_?grad|unscal", re.IGNORECASE)
_NOT_BY_HAND: Final = frozenset({"LossScaleOptimizer", "auto_scale_loss", "loss_scale_optimizer"})


@dataclass(frozen=True, slots=True)
class ByHand:
    """A loss multiplied by a fixed number by which its gradients are divided again."""

    node: ast.BinOp
    scale: float


def is_wrapper(source: Source, call: ast.Call) -> bool:
    """Say whether a call makes a Keras LossScaleOptimizer."""
    return _WRAPPER.fullmatch(name_of(source, call.func)) is not None


def wrappers(source: Source, tree: Parents) -> list[ast.Call]:
    """Return the calls in a file that make a LossScaleOptimizer."""
    if "LossScaleOptimizer" not in source.text:
        return []
    return [node for node in tree.every_call if is_wrapper(source, node)]


def wrapped_optimizer(call: ast.Call) -> ast.expr | None:
    """Return what a LossScaleOptimizer wraps; None if it is not given."""
    if call.args:
        return call.args[0]
    return keyword(call, "inner_optimizer") or keyword(call, "optimizer")


def scales(words: frozenset[str]) -> bool:
    """Say whether code seems to scale a loss, by an optimizer's method or by hand, judging by its identifiers."""
    return bool(words & SCALED) or any(_BY_HAND.search(w) for w in words - _NOT_BY_HAND)


def by_hand(source: Source, tree: Parents) -> Iterator[ByHand]:
    """Yield the losses that a file multiplies by a known number by which it later divides the gradients."""
    if "GradientTape" not in source.text:
        return
    divided = {
        (tree.unit_of(node), scale)
        for node, scale in _products(source, tree, ast.Div)
        if "grad" in ast.unparse(tree.statement_of(node)).lower()
    }
    for node, scale in _products(source, tree, ast.Mult):
        text = ast.unparse(node).lower()
        if "loss" in text and (power_of_two(scale) or "scal" in text) and (tree.unit_of(node), scale) in divided:
            yield ByHand(node, scale)


def _products(source: Source, tree: Parents, operator: type[ast.operator]) -> Iterator[tuple[ast.BinOp, float]]:
    for node in tree.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
            sides = (node.right,) if operator is ast.Div else (node.left, node.right)
            values = [number_of(source, side) for side in sides]
            value = next((v for v in values if v is not None and math.isfinite(v) and v >= SMALLEST_SCALE), None)
            if value is not None and number_of(source, node) is None:
                yield node, value


def power_of_two(value: float) -> bool:
    """Say whether a number is a power of two, like loss scales."""
    return value > 0 and math.frexp(value)[0] == 0.5
