"""Find the values in a layer's call() that are certainly 16-bit activations under the policy, from syntax alone.

When in doubt a value is unknown: it is 16-bit only if layers, operations that keep the dtype, or a cast to float16
lead to it, and nothing on the way casts to anything else.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, Literal

from tcprobe.keras.catalogue import class_of
from tcprobe.rules.precision.policy import name_of
from tcprobe.rules.precision.tree import Parents, is_layer_class, keyword
from tcprobe.source.scopes import FunctionNode

if TYPE_CHECKING:
    from tcprobe.source.source import Source

FlowKind = Literal["half", "other"]

_CASTS: Final = re.compile(r"(?:tensorflow|keras\.ops|keras\.backend)\.cast")
_MODULES: Final = re.compile(r"(?:tensorflow(?:\.math|\.nn|\.linalg)?|keras\.ops(?:\.\w+)?|keras\.activations)\.(\w+)")
_KEEPS: Final = frozenset({
    "abs", "add", "add_n", "clip_by_value", "concat", "concatenate", "divide", "einsum", "elu", "exp", "expand_dims",
    "gelu", "identity", "l2_normalize", "leaky_relu", "log", "log_softmax", "matmul", "maximum", "mean", "minimum",
    "moments", "multiply", "negative", "norm", "pad", "pow", "power", "relu", "reshape", "reduce_max", "reduce_mean",
    "reduce_min", "reduce_std", "reduce_sum", "reduce_variance", "rsqrt", "sigmoid", "silu", "softmax", "softplus",
    "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "swish", "tanh", "tensordot",
    "tile", "transpose", "truediv", "var", "where",
})  # fmt: skip
_FIRST_IS_CONDITION: Final = frozenset({"where"})
_NOT_FLOAT: Final = re.compile(
    r"(?:^|_)(?:ids?|tokens?|ind(?:ex|ices)|labels?|targets?|masks?|lengths?|len|seq|steps?)(?:_|$|s$)"
)
_LAYER: Final = re.compile(r"keras\.(?:\w++\.)*layers\.(?:\w++\.)*([A-Z]\w*)")


class Flow:
    """The kinds of the expressions in one function.

    Attributes:
        kinds: expression -> ``half`` or ``other``; absent if unknown.
        visited: every judged expression, in order.
    """

    def __init__(self, source: Source, tree: Parents, function: FunctionNode) -> None:
        self.source = source
        self.tree = tree
        self.kinds: dict[ast.expr, FlowKind] = {}
        self.visited: list[ast.expr] = []
        self.names: dict[str, FlowKind] = {}
        owner = tree.class_of(function)
        self.layers = _layers(source, owner) if owner is not None else frozenset()
        if owner is not None and _takes_policy(owner, function):
            first = [a.arg for a in function.args.args[1:2]]
            self.names = dict.fromkeys((n for n in first if not _NOT_FLOAT.search(n)), "half")
        self._block(function.body)

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, FunctionNode | ast.ClassDef):
            return
        blocks = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                self._expression(child)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._bind(target, self.kinds.get(statement.value))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._bind(statement.target, self.kinds.get(statement.value))
        elif isinstance(statement, ast.AugAssign):
            self._bind(statement.target, _joined(self.kinds.get(statement.target), self.kinds.get(statement.value)))
        elif isinstance(statement, ast.For | ast.AsyncFor):
            self._bind(statement.target, None)
        if any(blocks):
            self._branches([block for block in blocks if isinstance(block, list)])

    def _branches(self, blocks: list[list[ast.stmt]]) -> None:
        """Evaluate alternative branches, and keep only what all of them agree on for a name."""
        before, after = dict(self.names), []
        for block in blocks:
            self.names = dict(before)
            self._block(block)
            after.append(self.names)
        self.names = {n: k for n, k in after[0].items() if all(other.get(n) == k for other in after)}

    def _bind(self, target: ast.expr, kind: FlowKind | None) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                self._bind(item, kind)
        elif isinstance(target, ast.Name):
            self.names.pop(target.id, None)
            if kind is not None and not _NOT_FLOAT.search(target.id):
                self.names[target.id] = kind

    def _expression(self, node: ast.expr) -> FlowKind | None:
        for child in ast.walk(node):
            if isinstance(child, ast.Lambda | ast.ListComp | ast.DictComp | ast.SetComp | ast.GeneratorExp):
                return None
        self.visited.append(node)
        kind = self._kind(node)
        if kind is not None:
            self.kinds[node] = kind
        return kind

    def _kind(self, node: ast.expr) -> FlowKind | None:
        parts = {child: self._expression(child) for child in _operands(node)}
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.BinOp):
            return _joined(parts[node.left], parts[node.right])
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return parts[node.operand]
        if isinstance(node, ast.Subscript):
            by_name = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            return None if by_name else parts[node.value]
        return self._call(node, parts) if isinstance(node, ast.Call) else None

    def _call(self, node: ast.Call, parts: dict[ast.expr, FlowKind | None]) -> FlowKind | None:
        name = name_of(self.source, node.func)
        if _CASTS.fullmatch(name):
            target = node.args[1] if len(node.args) > 1 else keyword(node, "dtype")
            return self._cast(target)
        called = _MODULES.fullmatch(name)
        if called is None:
            return "half" if ast.unparse(node.func) in self.layers else None
        if called.group(1) not in _KEEPS or keyword(node, "dtype") is not None:
            return None
        arguments = node.args[1:] if called.group(1) in _FIRST_IS_CONDITION else node.args
        kinds = [parts.get(a) for a in arguments if not isinstance(a, ast.Constant)]
        return "other" if "other" in kinds else ("half" if "half" in kinds[:2] else None)

    def _cast(self, target: ast.expr | None) -> FlowKind | None:
        if target is None:
            return None
        known = self.source.known(target)
        dtype = str(known.value) if known is not None else name_of(self.source, target).rpartition(".")[2]
        if not dtype:
            return None
        return "half" if dtype == "float16" else ("other" if re.fullmatch(r"[a-z]+\d*", dtype) else None)


def _operands(node: ast.expr) -> list[ast.expr]:
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)] + [
        child.value for child in ast.iter_child_nodes(node) if isinstance(child, ast.keyword)
    ]


def _joined(left: FlowKind | None, right: FlowKind | None) -> FlowKind | None:
    """Return the kind of an operation on two values: TensorFlow does not mix dtypes, so one 16-bit side decides."""
    if "other" in (left, right):
        return "other"
    return "half" if "half" in (left, right) else None


def _takes_policy(owner: ast.ClassDef, function: FunctionNode) -> bool:
    """Say whether Keras casts the first argument of this method to the policy's dtype."""
    if function.name != "call" or not is_layer_class(owner):
        return False
    text = ast.unparse(owner)
    return "autocast" not in text and not re.search(r"super\(.*\)\.__init__\(.*dtype=(?!dtype)", text)


def _layers(source: Source, owner: ast.ClassDef) -> frozenset[str]:
    """Return the attributes (``self.dense``) that only ever hold a Keras layer with the policy's dtype."""
    found: dict[str, bool] = {}
    for node in ast.walk(owner):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    name = ast.unparse(target)
                    found[name] = found.get(name, True) and _policy_layer(source, node.value)
    return frozenset(name for name, good in found.items() if good)


def _policy_layer(source: Source, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    match = _LAYER.fullmatch(name_of(source, node.func))
    plain = keyword(node, "dtype") is None and all(k.arg is not None for k in node.keywords)
    return match is not None and plain and class_of(match.group(1)).kind not in ("encoding", "function")
