"""Facts that the precision rules share about a model and its files: the policy, its setter, Keras' version, values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from tcprobe.hardware import Capability, Gpu
from tcprobe.rules.base import Subject
from tcprobe.rules.precision.tree import Parents, keyword
from tcprobe.schema.place import Place

if TYPE_CHECKING:
    from tcprobe.source.source import Source

SIXTEEN_BITS: Final = ("float16", "bfloat16")
MIXED: Final = ("mixed_float16", "mixed_bfloat16")
HALF_POLICIES: Final = ("mixed_float16", "float16")
GUIDE: Final = "TensorFlow guide, Mixed precision (tensorflow/docs, site/en/guide/mixed_precision.ipynb)"

# Compute capability with the first Tensor Cores for a dtype. Source: NVIDIA V100, A100 and Ada whitepapers.
NEEDED: Final[dict[str, Capability]] = {"float16": (7, 0), "bfloat16": (8, 0), "float8": (8, 9)}

_SETTER: Final = re.compile(r"keras\.(?:config|mixed_precision)(?:\.experimental)?\.set_(?:global_|dtype_)?policy")
_POLICY: Final = re.compile(r"keras\.(?:\w++\.)*(?:DTypePolicy|Policy)")
_SETS: Final = re.compile(r"set_\w*policy")
_TOUCHED: Final = re.compile(r"float16|mixed_precision|set_\w*policy|LossScale|loss_scale|scaled_loss")
_LEGACY: Final = re.compile(r"tf_keras|TF_USE_LEGACY_KERAS")
_LEGACY_ON: Final = re.compile(r"""environ.*['"]TF_USE_LEGACY_KERAS['"](?:\] = |, )['"](?:1|[Tt]rue)['"]""")


@dataclass(frozen=True, slots=True)
class Setter:
    """A call that sets the global policy.

    Attributes:
        node, place: the call.
        policy: name of the policy; None if the source does not tell.
    """

    node: ast.Call
    place: Place
    policy: str | None


# Per file, and only while the file is in use: an audit of a thousand files keeps no more than it needs.
_TREES: Final[WeakKeyDictionary[Source, Parents]] = WeakKeyDictionary()
_SETTERS: Final[WeakKeyDictionary[Source, tuple[Setter, ...]]] = WeakKeyDictionary()


def tree_of(source: Source) -> Parents:
    """Return the tree of a file, built once for all rules."""
    tree = _TREES.get(source)
    if tree is None:
        tree = _TREES[source] = Parents(source.tree)
    return tree


def name_of(source: Source, node: ast.expr) -> str:
    """Return the canonical dotted name of an expression; empty if unknown."""
    return source.name_of(node) or ""


def touched(subject: Subject) -> Iterator[tuple[Source, Parents]]:
    """Yield the files that mention precision, or all files if the model's policy is not float32."""
    anyway = policies_of(subject) - {None, "float32"}
    for source in subject.sources.values():
        if anyway or _TOUCHED.search(source.text):
            yield source, tree_of(source)


def setters(source: Source) -> tuple[Setter, ...]:
    """Return the calls in a file that set the global policy, in order."""
    if not _SETS.search(source.text):
        return ()
    found = _SETTERS.get(source)
    if found is None:
        found = _SETTERS[source] = _setters(source)
    return found


def _setters(source: Source) -> tuple[Setter, ...]:
    calls = [call for call in tree_of(source).every_call if _SETTER.fullmatch(name_of(source, call.func))]
    made = [Setter(call, source.place(call), _policy_name(source, first_argument(call))) for call in calls]
    return tuple(sorted(made, key=lambda setter: setter.place))


def first_argument(call: ast.Call) -> ast.expr | None:
    """Return the first positional argument, else the value of the first keyword; None if there is none."""
    if call.args:
        return call.args[0]
    return call.keywords[0].value if call.keywords else None


def _policy_name(source: Source, node: ast.expr | None) -> str | None:
    if node is None:
        return None
    known = source.known(node)
    if known is not None:
        return known.value if isinstance(known.value, str) else None
    call = tree_of(source).call_behind(node)
    if call is None or not _POLICY.fullmatch(name_of(source, call.func)):
        return None
    name = keyword(call, "name") or first_argument(call)
    inner = source.known(name) if name is not None else None
    return inner.value if inner is not None and isinstance(inner.value, str) else None


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
    tree = tree_of(source)
    imported = {name.partition(".")[0] for node in tree.nodes for name in _imported(node)}
    told = any(_LEGACY_ON.search(ast.unparse(node)) for node in tree.nodes if isinstance(node, ast.Assign | ast.Call))
    return "keras" not in imported and ("tf_keras" in imported or told)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def number_of(source: Source, node: ast.expr | None) -> float | None:
    """Return the number that an expression is known to be; None if it is none or unknown."""
    known = source.known(node) if node is not None else None
    value = known.value if known is not None else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
