"""What the precision rules share: the policy, Keras' version, how files scale a loss, and what 16 bits save."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from tcprobe.cost.predict import Cost, op_cost
from tcprobe.hardware import Capability, Gpu
from tcprobe.rules.base import Subject
from tcprobe.rules.model.step import added, rests_on
from tcprobe.rules.precision.tree import Tree, keyword, name_of, number_of, tree_of
from tcprobe.schema.finding import Finding, Range
from tcprobe.schema.finding_kinds import WhyKind
from tcprobe.schema.model import Product
from tcprobe.schema.place import Place
from tcprobe.schema.provenance import Provenance
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

SIXTEEN_BITS: Final = ("float16", "bfloat16")
MIXED: Final = ("mixed_float16", "mixed_bfloat16")
HALF_POLICIES: Final = ("mixed_float16", "float16")
GUIDE: Final = "TensorFlow guide, Mixed precision (tensorflow/docs, site/en/guide/mixed_precision.ipynb)"

# Compute capability with the first Tensor Cores for a dtype. Source: NVIDIA V100, A100 and Ada whitepapers.
NEEDED: Final[dict[str, Capability]] = {"float16": (7, 0), "bfloat16": (8, 0), "float8": (8, 9)}
SMALLEST_SCALE: Final = 8.0  # a smaller factor weighs a loss against others and is not a loss scale

_SETTER: Final = re.compile(r"keras\.(?:config|mixed_precision)(?:\.experimental)?\.set_(?:global_|dtype_)?policy")
_POLICY: Final = re.compile(r"keras\.(?:\w++\.)*(?:DTypePolicy|Policy)")
_SETS: Final = re.compile(r"set_\w*policy")
_TOUCHED: Final = re.compile(r"float16|mixed_precision|set_\w*policy|LossScale|loss_scale|scaled_loss")
_LEGACY: Final = re.compile(r"tf_keras|TF_USE_LEGACY_KERAS")
_LEGACY_ON: Final = re.compile(r"""environ.*['"]TF_USE_LEGACY_KERAS['"](?:\] = |, )['"](?:1|[Tt]rue)['"]""")
_WRAPPER: Final = re.compile(r"keras\.(?:\w++\.)*LossScaleOptimizer(?:V3)?")
_SCALED: Final = frozenset({"scale_loss", "get_scaled_loss", "get_unscaled_gradients"})
_BY_HAND: Final = re.compile(r"loss_?scal|scaled?_?loss|grad\w*_?scal|scaled?_?grad|unscal", re.IGNORECASE)
_NOT_BY_HAND: Final = frozenset({"LossScaleOptimizer", "auto_scale_loss", "loss_scale_optimizer"})


class Setter(NamedTuple):
    """A call that sets the global policy, and the policy's name; None if the file does not tell."""

    node: ast.Call
    place: Place
    policy: str | None


# Per file, and only while the file is in use: an audit of a thousand files keeps no more than it needs.
_SETTERS: Final[WeakKeyDictionary[Source, tuple[Setter, ...]]] = WeakKeyDictionary()


def setters(source: Source) -> tuple[Setter, ...]:
    """Return the calls in a file that set the global policy, in order."""
    if not _SETS.search(source.text):
        return ()
    if source not in _SETTERS:
        calls = [call for call in tree_of(source).calls if _SETTER.fullmatch(name_of(source, call.func))]
        made = [Setter(call, source.place(call), _policy_name(source, _first_argument(call))) for call in calls]
        _SETTERS[source] = tuple(sorted(made, key=lambda setter: setter.place))
    return _SETTERS[source]


def _first_argument(call: ast.Call) -> ast.expr | None:
    given = [*call.args, *(k.value for k in call.keywords)]
    return given[0] if given else None


def _policy_name(source: Source, node: ast.expr | None) -> str | None:
    known = source.known(node) if node is not None else None
    if known is None and (call := tree_of(source).call_behind(node)) and _POLICY.fullmatch(name_of(source, call.func)):
        name = keyword(call, "name") or _first_argument(call)
        known = source.known(name) if name is not None else None
    return known.value if known is not None and isinstance(known.value, str) else None


def policies_of(subject: Subject) -> frozenset[str | None]:
    """Return every policy that the model may have: the traced one, else all that its files set anywhere.

    None is one that a call sets and the file does not tell.
    """
    calls = [] if subject.model.mode == "traced" else [s for file in subject.sources.values() for s in setters(file)]
    return frozenset(setter.policy for setter in calls) or frozenset({subject.model.policy})


def policy_of(subject: Subject) -> str | None:
    """Return the global policy; None where it is unknown, as where the files set two different ones."""
    policies = policies_of(subject)
    return next(iter(policies)) if len(policies) == 1 else None


def touched(subject: Subject) -> Iterator[tuple[Source, Tree]]:
    """Yield the files that mention precision, or all files if the model may have another policy than float32."""
    anyway = policies_of(subject) - {None, "float32"}
    for source in subject.sources.values():
        if anyway or _TOUCHED.search(source.text):
            yield source, tree_of(source)


def half_of(policy: str | None) -> str | None:
    """Return the 16-bit dtype in which layers compute under a policy; None if it has none."""
    return next((dtype for dtype in SIXTEEN_BITS if policy in (dtype, f"mixed_{dtype}")), None)


def has_cores_for(gpu: Gpu, dtype: str) -> bool:
    """Say whether a GPU has Tensor Cores for a dtype of `NEEDED`."""
    return gpu.tensor_cores and gpu.compute_capability >= NEEDED[dtype]


def keras_major(subject: Subject, source: Source | None = None) -> int | None:
    """Return Keras' major version; None if unknown (source mode). A file that takes Keras 2 by name has that."""
    if source is not None and keeps_keras_2(source):
        return 2
    major = (subject.model.keras or "").partition(".")[0]
    return int(major) if major.isdigit() else None


def keeps_keras_2(source: Source) -> bool:
    """Say whether a file takes Keras 2 alone: as the package tf_keras, or as tf.keras where TensorFlow is told so."""
    if not _LEGACY.search(source.text):
        return False
    nodes = tree_of(source).nodes
    imported = {name.partition(".")[0] for node in nodes for name in _imported(node)}
    legacy = any(_LEGACY_ON.search(ast.unparse(node)) for node in nodes if isinstance(node, ast.Assign | ast.Call))
    return "keras" not in imported and ("tf_keras" in imported or legacy)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def is_wrapper(source: Source, call: ast.Call | None) -> bool:
    """Say whether a call makes a Keras LossScaleOptimizer."""
    return call is not None and _WRAPPER.fullmatch(name_of(source, call.func)) is not None


def wrappers(source: Source, tree: Tree) -> list[ast.Call]:
    """Return the calls in a file that make a LossScaleOptimizer."""
    return [call for call in tree.calls if is_wrapper(source, call)] if "LossScaleOptimizer" in source.text else []


def scales(words: frozenset[str]) -> bool:
    """Say whether code seems to scale a loss, by an optimizer's method or by hand, judging by its identifiers."""
    return bool(words & _SCALED) or any(_BY_HAND.search(w) for w in words - _NOT_BY_HAND)


def by_hand(source: Source, tree: Tree) -> Iterator[tuple[ast.BinOp, float]]:
    """Yield the losses that a file multiplies by a known number by which it later divides the gradients."""
    if "GradientTape" not in source.text:
        return
    divided = {
        (tree.unit_of(node), scale)
        for node, scale in _scaled(source, tree, ast.Div)
        if "grad" in ast.unparse(tree.statement_of(node)).lower()
    }
    for node, scale in _scaled(source, tree, ast.Mult):
        text = ast.unparse(node).lower()
        if "loss" in text and (power_of_two(scale) or "scal" in text) and (tree.unit_of(node), scale) in divided:
            yield node, scale


def _scaled(source: Source, tree: Tree, operator: type[ast.operator]) -> Iterator[tuple[ast.BinOp, float]]:
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


class Saved(NamedTuple):
    """What 16 bits save per step over float32, in ns; whose constants it rests on, those of the costliest product."""

    ns: Range
    basis: str
    constants: Provenance | None


def saved(subject: Subject, products: Iterable[Product], half: str) -> Saved | None:
    """Return what 16 bits save over float32; None if no product can be predicted.

    Both costs are from one model, so its error cancels out: the saved share scales the range of float32's time.
    Casts are not counted.
    """
    target, parts, costs = subject.step.target, [], []
    for product in products:
        before = op_cost(product.record, target, "float32", product.compiled)
        after = op_cost(product.record, target, half, product.compiled)
        if before is not None and after is not None and before.ns > 0:
            parts.append(_saving_of(before, after).scaled(product.calls))
            costs.append(before)
    basis = "predicted" if target.constants is None else "calibrated"
    return Saved(added(parts), basis, next(iter(rests_on(costs)), None)) if parts else None


def with_saving(finding: Finding, subject: Subject, gain: Saved | None, unknown: WhyKind) -> Finding:
    """Return a finding with what 16 bits save, or why that is not known."""
    if gain is None:
        return replace(finding, why=say(unknown))
    share = subject.step.share_pct(gain.ns)
    return replace(finding, saving_ns=gain.ns, saving_pct=share, basis=gain.basis, constants=gain.constants)


def _saving_of(before: Cost, after: Cost) -> Range:
    share = 1 - after.ns / before.ns
    bounds = sorted((before.low_ns * share, before.high_ns * share))
    return Range(bounds[0], before.ns * share, bounds[1])
