"""Names of other modules, called: Keras' layers and models, precision policies, options, functions; and builtins."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from tcprobe.audit.source.arrays.datasets import data_set, enumerated, made_data_set
from tcprobe.audit.source.arrays.functions import array_function
from tcprobe.audit.source.arrays.own_products import note_call
from tcprobe.audit.source.attributes import attribute_of
from tcprobe.audit.source.fixed import is_by_number
from tcprobe.audit.source.kinds import (
    NOTHING,
    SAVED,
    Arguments,
    Bound,
    Class,
    CommandLine,
    DataSet,
    Entries,
    Env,
    Instance,
    Items,
    Keywords,
    Named,
    Routine,
    SourceValue,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.models import make_graph, make_input, make_stack
from tcprobe.audit.source.operators import FUNCTIONS, computed, define, is_definition, is_parser
from tcprobe.audit.source.state import State
from tcprobe.audit.source.steps.trainings import SETTERS, note_set
from tcprobe.audit.source.values import (
    elements,
    items_of,
    result_of,
    sequence,
    tensors_of,
    through,
    truth,
    unparsed,
)
from tcprobe.keras.catalogue import LAYER_CLASSES, canonical_name, class_of, layer_class, positional
from tcprobe.schema.model import GpuAsked
from tcprobe.source.values import DOUBTED, Known, derived, tuple_of

_POLICY: Final = ("set_global_policy", "set_dtype_policy", "set_policy", "set_global_dtype_policy", "set_floatx")
_SAME_FUNCTION: Final = ("tensorflow.function", "jax.jit")
_COPIES: Final = ("copy.copy", "copy.deepcopy")
_IMAGE_SHAPE: Final = ("imagenet_utils.obtain_input_shape", "imagenet_utils._obtain_input_shape")
_COLORS: Final = 3
_OF_TENSORS: Final = ("tensorflow", "keras", "numpy", "jax")
_NAMESPACES: Final = ("types.SimpleNamespace", "argparse.Namespace", "ml_collections.ConfigDict")
_TUPLES: Final = ("typing.NamedTuple", "collections.namedtuple")
_MERGES: Final = {row.name.lower(): row.name for row in LAYER_CLASSES if row.kind == "merging"}
"""Functions of `keras.layers` that merge tensors, and the class that does the same."""
_OWN_CUDNN: Final = tuple(f".CuDNN{row.name}" for row in LAYER_CLASSES if row.cudnn)
_OFF_CUDNN: Final = frozenset(setting for row in LAYER_CLASSES for setting, _ in row.cudnn)
_KERAS_1: Final = frozenset(
    {"nb_filter", "nb_row", "nb_col", "border_mode", "subsample", "dim_ordering", "W_regularizer"}
)
"""Arguments of convolutions in Keras 1: `Convolution2D(32, 3, 3)` is 3 x 3 there, and a setting the layout."""
_RECURRENT_1: Final = frozenset({"output_dim", "inner_activation", "dropout_W", "dropout_U", "inner_init"})
"""Arguments of recurrent layers in Keras 1, which has no cuDNN."""
_OTHERWISE: Final = ("filters", "kernel_size", "strides", "padding", "data_format")
_LOSSES: Final = ("keras.losses.", "keras.metrics.")
_GENERATORS: Final = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator")


def call_module(p: State, name: str, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of a function or class, by its name as imported."""
    if name.startswith("builtins."):
        return _builtin(p, name.removeprefix("builtins."), given, node)
    imported, name = name, canonical_name(name)
    made = _of_keras(p, name, _by_name(imported, given), given, node) if name.startswith("keras.") else None
    if made is None and name.endswith(_IMAGE_SHAPE):
        return _image_shape(given)
    made = made or _of_gpus(p, name, given, node) or _of_options(p, name, given)
    if name in SETTERS:
        note_set(p, name, given, node)
    made = made or _record(name, given, node) or _of_functions(name, given)
    if made is not None:
        return made
    if name in FUNCTIONS and not given.keywords and not tensors_of(*given.args):
        return computed(name, given.args, node)
    if name.partition(".")[0] in _OF_TENSORS:
        note_call(p, name, given, node)
        return _of_tensors(p, name, given, node)
    return result_of(node, *given.all)


def _by_name(name: str, given: Arguments) -> Keywords:
    """Return what a call passes by name, as the function names it."""
    names = positional(name)
    args = {names[i] if i < len(names) else str(i): value for i, value in enumerate(given.args)}
    values = {**args, **given.keywords}
    row = class_of(layer_class(canonical_name(name)) or "")
    if name.endswith(_OWN_CUDNN) or (row.cudnn and not _RECURRENT_1.isdisjoint(values)):
        return {name: value for name, value in values.items() if name not in _OFF_CUDNN}  # nothing is said of these
    if row.rank and not _KERAS_1.isdisjoint(values):
        return {**values, **dict.fromkeys(_OTHERWISE, Unknown("its arguments are those of Keras 1"))}
    return values


def _of_keras(p: State, name: str, values: Keywords, given: Arguments, node: ast.Call) -> SourceValue | None:
    """Return what a name of Keras' constructs or sets; None where it does neither."""
    last, kind = name.rpartition(".")[2], layer_class(name)
    if name == "keras.Input" or kind == "InputLayer":
        return make_input(p, values, node)
    if kind is not None:
        return p.layers.make(kind, p.here.call_of(node), values, p.policy, given.lacking)
    if name == "keras.Sequential":
        return make_stack(p, values, node)
    if name == "keras.Model":
        return make_graph(p, values, node)
    if last in _POLICY:
        policy = values.get("policy") or values.get("value")
        p.set_policy(policy.value if type(policy) is Known and isinstance(policy.value, str) else None)
        return NOTHING
    if last == "image_data_format":  # Keras' own, of its configuration file, where the file sets no other
        if any(call.name.endswith("set_image_data_format") for call in p.source.calls()):
            return Unknown("the layout of images is set in the file")
        return Known("channels_last", doubts=DOUBTED)
    if last == "load_model":
        return SAVED
    if name.startswith(_LOSSES):
        if is_by_number(name):
            p.compared.append([value for value in given.args if type(value) is Tensor])
        if not given.args and last[:1].isupper():
            return Named(name)  # an object that is called as the function of its name
    if name.startswith("keras.applications.") and last[:1].isupper():
        p.miss(node, last, "a ready-made model, known only by running it")
        return Unknown(f"is the result of {last}, whose layers are not in this file")
    return None


def _of_options(p: State, name: str, given: Arguments) -> SourceValue | None:
    """Return what a name of argparse or absl makes; None for any other."""
    if is_parser(name):
        return CommandLine({}, words=p.argv)
    return define(p.flags, given.args, given.keywords, not p.conditions) if is_definition(name) else None


def _record(name: str, given: Arguments, node: ast.Call) -> SourceValue | None:
    """Return a filled namespace, or a class of named tuples; None where a name makes neither."""
    if name in _NAMESPACES and not given.args and not given.lacking:
        return CommandLine(dict(given.keywords), given=True)
    fields = _fields(given.args[1]) if name in _TUPLES and len(given.args) > 1 else None
    if fields is None:
        return None
    lines: list[ast.stmt] = [ast.AnnAssign(ast.Name(f, ast.Store()), ast.Constant(None), None, 1) for f in fields]
    return Class(ast.copy_location(ast.ClassDef("", [], [], lines, []), node), Env(), [])


def _fields(given: SourceValue) -> list[str] | None:
    """Return the names of fields: of a text, of a list of texts or of pairs with a type."""
    if type(given) is Known and isinstance(given.value, str):
        return given.value.replace(",", " ").split()
    parts = items_of(given)
    heads = [(items_of(part) or [part])[0] for part in parts or ()]
    names = [h.value for h in heads if type(h) is Known and isinstance(h.value, str)]
    return names if parts is not None and len(names) == len(parts) else None


def _of_functions(name: str, given: Arguments) -> SourceValue | None:
    """Return what hands on what it is given, a function as a rule; None for any other name."""
    first = given.first
    if name.rpartition(".")[2] in ("Policy", "DTypePolicy") and first is not None:
        return first
    if name in _SAME_FUNCTION and isinstance(first, (Routine, Bound, Instance)):
        return first
    if name == "functools.partial" and first is not None:
        return Bound(first, "partial", given.args[1:], given.keywords)
    if name in _COPIES and first is not None:
        return first if isinstance(first, (Known, Named)) else Unknown("is a copy")
    return None


def _image_shape(given: Arguments) -> SourceValue:
    """Return the input shape of a ready-made model of Keras': the one given, else the default of a model with a head.

    Source: obtain_input_shape of keras/src/applications/imagenet_utils.py; where it raises, what the caller gave.
    """
    shape, size, flat = given.get(0, "input_shape"), given.get(1, "default_size"), given.get(4, "require_flatten")
    layout = given.get(3, "data_format")
    if shape is not None and items_of(shape):
        return shape
    lacks = type(shape) is Known and not shape.value
    last = type(layout) is Known and layout.value in (None, "channels_last")
    if not (lacks and last and type(size) is Known and type(flat) is Known):
        return Unknown("is an input shape whose default is not known")
    parts = [value for value in (shape, size, flat, layout) if type(value) is Known]
    side = size.value if flat.value else None
    return Items([derived(known, *parts) for known in (side, side, _COLORS)])


def _of_tensors(p: State, name: str, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of a function of a module that computes with tensors."""
    last = name.rpartition(".")[2]
    tensors = tensors_of(*given.all)
    if tensors and last in _MERGES and name.startswith("keras.layers."):
        values = {k: v for k, v in given.keywords.items() if not tensors_of(v)}
        return p.layers.apply(p.layers.make(_MERGES[last], p.here.call_of(node), values, p.policy), tensors)
    if name in _GENERATORS:  # its methods are the module's functions
        return Named("numpy.random")
    found = data_set(name) or made_data_set(name, given)
    if found is None and not given.lacking:
        found = array_function(name, given)
    if found is not None:
        return found
    if not tensors:
        return Unknown(f"is the result of {unparsed(node.func)}()")
    fresh = True if all(t.fresh for t in tensors) else False if any(t.fresh is False for t in tensors) else None
    return Tensor(None, None, (), any(t.symbolic for t in tensors), fresh)


# Questions for a GPU: the model is judged for a machine with one, so code that asks is followed as it runs there


Asks: TypeAlias = Literal["there", "visible"]
"""What a function asks: whether the machine has a GPU, or whether the program may use one."""
LISTS: Final[dict[str, Asks]] = {
    "tensorflow.config.list_physical_devices": "there",
    "tensorflow.config.list_logical_devices": "visible",
    "tensorflow.config.get_visible_devices": "visible",
    "jax.devices": "there",
    "jax.local_devices": "there",
}
"""Functions that list the devices of the kind that they are given."""
_SWITCHES: Final[dict[str, tuple[Asks, object, object]]] = {
    "tensorflow.test.is_gpu_available": ("visible", True, False),
    "tensorflow.test.gpu_device_name": ("visible", "/device:GPU:0", ""),
    "torch.cuda.is_available": ("there", True, False),
    "torch.cuda.device_count": ("there", 1, 0),
}
"""Others: what they ask, and what they return where it is so, and where it is not."""
_BUILT: Final = ("tensorflow.test.is_built_with_cuda", "tensorflow.test.is_built_with_gpu_support")
_STRATEGIES: Final = ("tensorflow.distribute.MirroredStrategy", "tensorflow.distribute.OneDeviceStrategy")
_ALIASES: Final = re.compile(r"^tensorflow\.compat\.v[12]\.|(?<=\.)experimental\.")
_OPEN: Final = Unknown("whether there is a GPU depends on what the file sets under a condition")


def _of_gpus(p: State, name: str, given: Arguments, node: ast.Call) -> SourceValue | None:
    """Return what a function says of GPUs on a machine with one; None where that is none of its questions."""
    plain = _plain(name)
    if plain == "tensorflow.config.set_visible_devices":
        return _show(p, given)
    if plain in _STRATEGIES:  # of other devices than are there it has what it is given
        one = plain.endswith("OneDeviceStrategy") or not given.all
        return CommandLine({"num_replicas_in_sync": Known(1)}, given=True) if one else None
    if plain in _BUILT:
        return _asked(p, name, node, Known(True))
    if plain in LISTS:
        return _listed(p, name, LISTS[plain], given, node)
    if plain not in _SWITCHES:
        return None
    asks, there, nowhere = _SWITCHES[plain]
    return _one_of(p, name, node, asks, Known(there), Known(nowhere))


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    return _ALIASES.sub(lambda match: "tensorflow." if match.start() == 0 else "", name)


def _listed(p: State, name: str, asks: Asks, given: Arguments, node: ast.Call) -> SourceValue | None:
    kind = given.get(0, "backend" if name.startswith("jax.") else "device_type")
    if type(kind) is not Known or str(kind.value).upper() not in ("GPU", "CUDA"):
        return None
    return _one_of(p, name, node, asks, Items([Unknown("is a device")]), Items([]))


def _one_of(p: State, name: str, node: ast.Call, asks: Asks, there: SourceValue, nowhere: SourceValue) -> SourceValue:
    """Return the answer where there is a GPU, unless the file itself hides it."""
    is_there = p.gpu_there if asks == "there" or not p.gpu_there else p.gpu_visible
    if is_there is None:
        return _OPEN
    return _asked(p, name, node, there) if is_there else nowhere


def _asked(p: State, name: str, node: ast.Call, answer: SourceValue) -> SourceValue:
    p.gpu_asked.setdefault(node, GpuAsked(name, p.here.place(node)))
    return answer


def _show(p: State, given: Arguments) -> SourceValue:
    """Follow ``set_visible_devices``: an empty list of GPUs leaves the program none."""
    kind, devices = given.get(1, "device_type"), given.get(0, "devices")
    if type(kind) is Known and kind.value == "GPU" and devices is not None:
        p.gpu_visible = p.behind(p.gpu_visible, items_of(devices) != [])
    return NOTHING


# Python's own functions: of lists, dictionaries, attributes


def _builtin(p: State, name: str, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of a builtin function."""
    follow = _BUILTINS.get(name)
    made = follow(given) if follow is not None else _getattr(p, given) if name == "getattr" else None
    if made is not None:
        return through(made, *given.args)
    if name in FUNCTIONS and not given.keywords and given.args:
        return computed(name, given.args, node)
    return result_of(node, *given.args)


def _getattr(p: State, given: Arguments) -> SourceValue | None:
    of, name, *default = given.args if len(given.args) >= 2 else (None, None)
    if of is None or type(name) is not Known or not isinstance(name.value, str):
        return None
    found = attribute_of(p, of, name.value)
    return default[0] if type(found) is Unknown and len(default) == 1 else found


def _list(given: Arguments) -> SourceValue | None:
    of = given.first
    found = elements(of) if of is not None else []
    if type(of) is Known and isinstance(of.value, tuple):
        found = list(of.elements)
    if found is not None:
        return Items(found)
    return Items(list(of.items), of.open) if type(of) is Items else None


def _tuple(given: Arguments) -> SourceValue | None:
    of = given.first
    return tuple_of(of.elements) if type(of) is Known and isinstance(of.value, tuple) else _list(given)


def _reversed(given: Arguments) -> SourceValue | None:
    found = items_of(given.first) if len(given.args) == 1 else None
    return sequence(found[::-1]) if found is not None else None


def _enumerate(given: Arguments) -> SourceValue | None:
    if type(given.first) is DataSet:
        return enumerated(given.first)
    found, start = elements(given.first), given.get(1, "start") or Known(0)
    if found is None or type(start) is not Known or type(start.value) is not int:
        return None
    return Items([sequence([Known(start.value + i), v]) for i, v in enumerate(found)])


def _zip(given: Arguments) -> SourceValue | None:
    columns = [c for a in given.args if (c := elements(a)) is not None]
    rows = zip(*columns, strict=False) if len(columns) == len(given.args) else None
    return Items([sequence(row) for row in rows]) if rows is not None else None


def _dict(given: Arguments) -> SourceValue | None:
    first = given.first if given.first is not None else Entries({})
    return Entries({**first.entries, **given.keywords}, first.open) if type(first) is Entries else None


def _vars(given: Arguments) -> SourceValue | None:
    of = given.first
    return Entries(of.entries, of.open) if type(of) is CommandLine else None


def _len(given: Arguments) -> SourceValue | None:
    found = elements(given.first)
    return derived(len(found), *(e for e in found if type(e) is Known)) if found is not None else None


def _bool(given: Arguments) -> SourceValue | None:
    """Return whether a list is empty or not; constants count as any function's."""
    of = given.first
    holds = truth(of) if isinstance(of, (Items, Entries)) else None
    return Known(holds) if holds is not None else None


_BUILTINS: Final[dict[str, Callable[[Arguments], SourceValue | None]]] = {
    "list": _list,
    "tuple": _tuple,
    "reversed": _reversed,
    "enumerate": _enumerate,
    "zip": _zip,
    "iter": lambda given: given.first if type(given.first) is DataSet else None,
    "next": lambda given: given.first.element if type(given.first) is DataSet else None,
    "dict": _dict,
    "vars": _vars,
    "len": _len,
    "bool": _bool,
}
