"""Calls of what is not the user's: layers, models, functions of TensorFlow and Keras, builtins."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tcprobe.audit.source.arrays import data_set, expanded, joined
from tcprobe.audit.source.containers import of_dictionary, of_list, of_text
from tcprobe.audit.source.layers import unparsed
from tcprobe.audit.source.models import Models
from tcprobe.audit.source.options import define, entries, is_definition, is_parser, parser
from tcprobe.audit.source.options import method as options_method
from tcprobe.audit.source.values import (
    Bound,
    Draft,
    Entries,
    Graph,
    Instance,
    Items,
    Named,
    Options,
    Routine,
    Stack,
    Tensor,
    Unknown,
    Value,
    either,
    items_of,
    number,
    sequence,
    shape_from,
    tensors_of,
)
from tcprobe.keras.shapes.layers import output_shape
from tcprobe.syntax.constants import FUNCTIONS, applied
from tcprobe.syntax.keras_names import canonical, layer_class, positional
from tcprobe.syntax.values import Known, tuple_of

Keywords = dict[str, Value]
_POLICY: Final = ("set_global_policy", "set_dtype_policy", "set_policy", "set_global_dtype_policy", "set_floatx")
_MERGES: Final = ("add", "subtract", "multiply", "average", "maximum", "minimum", "concatenate", "concat", "dot")
_SAME_SHAPE: Final = frozenset((
    "relu", "relu6", "gelu", "elu", "selu", "silu", "swish", "sigmoid", "tanh", "softmax", "log_softmax", "softplus",
    "leaky_relu", "cast", "identity", "stop_gradient", "dropout", "exp", "log", "sqrt", "square", "abs", "negative",
    "l2_normalize", "clip_by_value", "convert_to_tensor", "linear", "hard_sigmoid", "mish", "ensure_shape",
))  # fmt: skip
_FILLED: Final = ("zeros", "ones", "uniform", "normal", "truncated_normal", "random_normal", "random_uniform", "fill")
_SAME_ARRAY: Final = ("astype", "copy", "numpy", "clip", "round")
_SAME_FUNCTION: Final = ("tensorflow.function", "jax.jit")
_MODULES: Final = ("tensorflow", "keras", "numpy", "jax")


class Outside(Models):
    """Evaluates calls of other modules' names."""

    def outside(self, name: str, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        """Return the result of a function or class of another module, or of a builtin."""
        if name.startswith("builtins."):
            return self._builtin(name.removeprefix("builtins."), args, keywords, node)
        name = canonical(name)
        values = self._values(name, args, keywords)
        kind = layer_class(name)
        if kind is not None:
            return self._layer(kind, values, node)
        last = name.rpartition(".")[2]
        if name == "keras.Input":
            return self.make_input(values)
        if name == "keras.Sequential":
            return self.make_stack(values, node)
        if name == "keras.Model":
            return self._graph(values)
        if last in _POLICY and name.startswith("keras."):
            return self._set_policy(values.get("policy") or values.get("value"))
        if last in ("Policy", "DTypePolicy") and args:
            return args[0]
        if name.startswith("keras.applications.") and last[:1].isupper():
            return self.opaque(node, last)
        if is_parser(name):
            return parser(name, keywords)
        if is_definition(name):
            return define(self.flags, args, keywords, not self.conditions)
        if name in _SAME_FUNCTION and args and isinstance(args[0], Routine | Bound | Instance):
            return args[0]
        if name in ("functools.partial", "copy.copy", "copy.deepcopy"):
            return self._helper(name, args, keywords)
        return self._of_module(name, last, args, keywords, node)

    def _values(self, name: str, args: list[Value], keywords: Keywords) -> Keywords:
        names = positional(name)
        given = {names[i] if i < len(names) else str(i): value for i, value in enumerate(args)}
        return {**given, **keywords}

    def _layer(self, kind: str, values: Keywords, node: ast.Call) -> Value:
        if kind == "InputLayer":
            return self.make_input(values)
        return self.layers.make(kind, self.source.call_of(node), values, self.lacking)

    def _graph(self, values: Keywords) -> Value:
        if "inputs" not in values or "outputs" not in values:
            return Unknown("is a model whose inputs and outputs are not known")
        graph = Graph(values["inputs"], values["outputs"])
        self.graphs.append(graph)
        return graph

    def _set_policy(self, value: Value | None) -> Value:
        policy = value.value if isinstance(value, Known) and isinstance(value.value, str) else None
        if self.conditions and policy != self.layers.policy:
            policy = None
        self.layers.policy = policy
        return number(None)

    def _helper(self, name: str, args: list[Value], keywords: Keywords) -> Value:
        if not args:
            return Unknown(f"is the result of {name}()")
        if name != "functools.partial":
            return args[0] if isinstance(args[0], Known | Named) else Unknown("is a copy")
        return Bound(args[0], "partial", args[1:], keywords)

    def _of_module(self, name: str, last: str, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        if name in FUNCTIONS and not keywords:
            return self._computed(name, args, node)
        tensors = [t for value in (*args, *keywords.values()) for t in tensors_of(value)]
        if name.partition(".")[0] not in _MODULES:
            return self._unknown(node, tensors)
        if not tensors:
            return data_set(name) or self._filled(name, last, args, keywords, node)
        if last in _MERGES and name.startswith("keras.layers."):
            values = {k: v for k, v in keywords.items() if not tensors_of(v)}
            return self.layers.apply(self.layers.make(_kind(last), self.source.call_of(node), values, False), tensors)
        if last in _MERGES:
            return self._merged(name, last, tensors, args, keywords)
        if last == "reshape" and len(args) == 2 and isinstance(args[0], Tensor):
            return self._reshaped(args[0], args[1])
        if last == "expand_dims" and isinstance(args[0] if args else None, Tensor):
            axis = args[1] if len(args) > 1 else keywords.get("axis")
            return expanded(tensors[0], axis.value if isinstance(axis, Known) and type(axis.value) is int else None)
        if last in _SAME_SHAPE or (last in ("array", "asarray") and isinstance(args[0] if args else None, Tensor)):
            return tensors[0]
        fresh = True if all(t.fresh for t in tensors) else False if any(t.fresh is False for t in tensors) else None
        return Tensor(None, None, (), any(t.symbolic for t in tensors), fresh)

    def _merged(self, name: str, last: str, tensors: list[Tensor], args: list[Value], keywords: Keywords) -> Value:
        kind = _kind(last)
        default = number(0 if last == "concatenate" and name.startswith("numpy.") else -1)
        axis = keywords.get("axis") or (args[1] if len(args) > 1 and kind == "Concatenate" else default)
        config = {"axis": axis.value if isinstance(axis, Known) else ...} if kind == "Concatenate" else {}
        if kind == "Dot":
            config = {"axes": ...}
        shape = output_shape(kind, config, [t.shape for t in tensors]) if len(tensors) > 1 else None
        both = tensors[0]
        for tensor in tensors[1:]:
            both = either(both, tensor)
        if kind == "Concatenate" and isinstance(axis, Known) and axis.value == 0:
            return replace(both, shape=joined(tensors), features=None)
        if kind == "Concatenate":  # its features are no single layer's
            return Tensor(shape, None, (), both.symbolic, both.fresh)
        return replace(both, shape=shape)

    def _reshaped(self, tensor: Tensor, target: Value) -> Value:
        shape = shape_from(target)
        if shape is None or len(shape) < 2:
            return replace(tensor, shape=None, features=None)
        inner = output_shape("Reshape", {"target_shape": tuple(s if s else -1 for s in shape[1:])}, tensor.shape)
        return replace(tensor, shape=inner if None not in shape[1:] else (None, *shape[1:]), features=None)

    def _filled(self, name: str, last: str, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        """A tensor of a given shape; its first dimension is no promise of a batch."""
        given = keywords.get("shape") or (args[0] if args else None)
        shape = shape_from(given) if given is not None else None
        if name in ("numpy.random.rand", "numpy.random.randn"):
            shape = shape_from(Items(args))
        elif last not in _FILLED or (isinstance(given, Known) and not isinstance(given.value, tuple)):
            return Unknown(f"is the result of {unparsed(node.func)}()")
        return Tensor((None, *shape[1:]) if shape else None, None, (), False, True)

    def _computed(self, name: str, args: list[Value], node: ast.Call) -> Value:
        known = [a for a in args if isinstance(a, Known)]
        if len(known) == len(args):
            return applied(name, tuple(known), node) or Unknown(f"{unparsed(node)} cannot be computed")
        return next((a for a in args if isinstance(a, Unknown)), Unknown(f"{unparsed(node)} is not known"))

    def _unknown(self, node: ast.Call, tensors: list[Tensor]) -> Value:
        if not tensors:
            return Unknown(f"is the result of {unparsed(node.func)}()")
        return Tensor(None, None, (), any(t.symbolic for t in tensors), None)

    # builtins

    def _builtin(self, name: str, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        made = _BUILTINS[name](self, args, keywords, node) if name in _BUILTINS else None
        if made is not None:
            return made
        if name in FUNCTIONS and not keywords and args:
            return self._computed(name, args, node)
        return self._unknown(node, [t for a in args for t in tensors_of(a)])

    def _list(self, args: list[Value], _: Keywords, node: ast.Call) -> Value | None:
        if not args:
            return Items([])
        if isinstance(args[0], Known) and isinstance(args[0].value, tuple):
            return Items(list(args[0].elements)) if unparsed(node.func) == "list" else tuple_of(args[0].elements, node)
        found = self.elements(args[0])
        if found is not None:
            return Items(found)
        return Items(list(args[0].items), args[0].open) if isinstance(args[0], Items) else None

    def _reversed(self, args: list[Value], _: Keywords, node: ast.Call) -> Value | None:
        found = self.elements(args[0]) if len(args) == 1 else None
        return sequence(found[::-1], node) if found is not None else None

    def _enumerate(self, args: list[Value], keywords: Keywords, node: ast.Call) -> Value | None:
        found = self.elements(args[0]) if args else None
        start = args[1] if len(args) > 1 else keywords.get("start", number(0))
        if found is None or not isinstance(start, Known) or type(start.value) is not int:
            return None
        return Items([sequence([number(start.value + i, node), v], node) for i, v in enumerate(found)])

    def _zip(self, args: list[Value], _: Keywords, node: ast.Call) -> Value | None:
        columns = [self.elements(a) for a in args]
        known = [c for c in columns if c is not None]
        if len(known) != len(columns):
            return None
        return Items([sequence(list(row), node) for row in zip(*known, strict=False)])

    def _make_dict(self, args: list[Value], keywords: Keywords, _: ast.Call) -> Value | None:
        if args and not isinstance(args[0], Entries):
            return None
        first = args[0] if args and isinstance(args[0], Entries) else Entries({})
        return Entries({**first.entries, **keywords}, first.open)

    def _getattr(self, args: list[Value], _: Keywords, __: ast.Call) -> Value | None:
        if len(args) >= 2 and isinstance(args[1], Known) and isinstance(args[1].value, str):
            found = self.attribute(args[0], ast.Attribute(ast.Constant(None), args[1].value, ast.Load()))
            return args[2] if isinstance(found, Unknown) and len(args) == 3 else found
        return None

    def _vars(self, args: list[Value], _: Keywords, __: ast.Call) -> Value | None:
        return entries(args[0]) if args and isinstance(args[0], Options) else None

    # methods of lists, dictionaries, models

    def method(self, bound: Bound, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        """Return the result of a method of something that is not the user's."""
        of, name = bound.target, bound.name
        if isinstance(of, Items):
            self.layers.changes += 1
            return of_list(of, name, args, self.elements)
        if isinstance(of, Entries):
            return of_dictionary(of, name, args, keywords)
        if isinstance(of, Stack | Graph | Instance | Draft):
            return self._of_model(of, name, args, keywords, node)
        if isinstance(of, Known) and isinstance(of.value, str) and (text := of_text(of.value, name, args)) is not None:
            return number(text, node)
        if isinstance(of, Options):
            return options_method(of, name, args, keywords, not self.conditions)
        if isinstance(of, Tensor) and name in _SAME_ARRAY:
            return of
        if isinstance(of, Tensor) and name == "reshape" and args:
            return self._reshaped(of, args[0] if len(args) == 1 else Items(args))
        tensors = tensors_of(of) + [t for a in args for t in tensors_of(a)]
        return self._unknown(node, tensors)

    def _of_model(
        self, of: Stack | Graph | Instance | Draft, name: str, args: list[Value], keywords: Keywords, node: ast.Call
    ) -> Value:
        if isinstance(of, Stack) and name == "add" and args:
            self.add(of, args[0])
        elif name == "build" and not isinstance(of, Graph):
            given = args[0] if args else keywords.get("input_shape")
            shape = shape_from(given) if given is not None else None
            self.apply(
                of, [Tensor((None, *shape[1:]) if shape else None, None, (), not isinstance(of, Stack), True)], node
            )
        elif isinstance(of, Instance) and name == "add_weight":
            return Tensor(shape_from(keywords.get("shape", number(None))), None, (), False, False)
        elif name in ("call", "__call__", "predict", "predict_on_batch"):
            inputs = args[:1] if name not in ("call", "__call__") else args
            return self.apply(of, inputs, node)
        elif name in ("fit", "evaluate", "train_on_batch") and args and isinstance(args[0], Tensor):
            self.apply(of, args[:1], node)  # its shape builds a model that has none yet
        elif name == "get_layer" and isinstance(of, Stack | Graph):
            return self._named_layer(args, keywords)
        return number(None) if name in ("add", "build", "compile", "summary") else Unknown(f"is the result of {name}()")

    def _named_layer(self, args: list[Value], keywords: Keywords) -> Value:
        wanted = args[0] if args else keywords.get("name")
        name = wanted.value if isinstance(wanted, Known) else None
        found = [draft for draft in self.layers.drafts if draft.name == name]
        return found[0] if len(found) == 1 else Unknown("is the result of get_layer()")


def _kind(function: str) -> str:
    """Return the class of a merging function: ``concat``: Concatenate."""
    return "Concatenate" if function.startswith("concat") else function.capitalize()


def unpacked(value: Value, count: int, starred: int | None) -> list[Value] | None:
    """Return the parts of an unpacked value, those of a starred target as one list; None where they do not fit."""
    found = items_of(value)
    if isinstance(value, Instance) and not value.keras:
        found = list(value.attrs.values())
    if isinstance(value, Tensor) and starred is None:  # several inputs of a model, or rows
        found = [Tensor(None, None, (), value.symbolic, value.fresh)] * count
    if found is None or (len(found) != count if starred is None else len(found) < count - 1):
        return None
    if starred is None:
        return found
    after = count - starred - 1
    end = len(found) - after
    return [*found[:starred], Items(found[starred:end]), *found[end:]]


_BUILTINS: Final[dict[str, Callable[[Outside, list[Value], Keywords, ast.Call], Value | None]]] = {
    "list": Outside._list,
    "tuple": Outside._list,
    "reversed": Outside._reversed,
    "enumerate": Outside._enumerate,
    "zip": Outside._zip,
    "dict": Outside._make_dict,
    "getattr": Outside._getattr,
    "vars": Outside._vars,
    "len": lambda self, args, _, node: (
        number(len(found), node) if args and (found := self.elements(args[0])) is not None else None
    ),
}
