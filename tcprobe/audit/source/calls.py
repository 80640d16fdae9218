"""Calls: their arguments evaluated, then whatever is called; methods of what is not the user's."""

from __future__ import annotations

import ast
import re
from typing import Final, TypeAlias

from msgspec.structs import replace

from tcprobe.audit.source.arrays.datasets import inputs_of, of_data_set
from tcprobe.audit.source.arrays.functions import array_method
from tcprobe.audit.source.arrays.layout import UNKNOWN_DATA
from tcprobe.audit.source.fixed import note_loaded
from tcprobe.audit.source.functions import apply_instance, construct, enter, inherited
from tcprobe.audit.source.kinds import (
    NOTHING,
    SAVED,
    Arguments,
    Bound,
    Class,
    CommandLine,
    DataSet,
    Draft,
    Entries,
    Graph,
    Instance,
    Items,
    Named,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.models import add, apply
from tcprobe.audit.source.modules import call_module
from tcprobe.audit.source.operators import CHANGING, FUNCTIONS, READS, method, of_dictionary, of_list, of_text
from tcprobe.audit.source.state import State
from tcprobe.audit.source.steps.trainings import note_training, note_unknown
from tcprobe.audit.source.values import (
    elements,
    is_read,
    items_of,
    result_of,
    shaken,
    shape_from,
    tensors_of,
    through,
)
from tcprobe.source.values import Known, derived

_READERS: Final = re.compile(
    r"^builtins\.(open|input)$|^(json|yaml|pickle|toml|tomllib|joblib|torch)\.(\w*load\w*)$"
    r"|^numpy\.(\w*load\w*|fromfile|genfromtxt|memmap)$|^pandas\.read_\w+$|^h5py\.File$|^(glob\.i?glob|os\.listdir)$"
    r"|^tensorflow\.(io\.read_file|io\.gfile\.GFile|data\.TextLineDataset)$|^csv\.(reader|DictReader)$"
    r"|^pathlib\.Path$|^os\.(scandir|walk)$|^PIL\.Image\.open$|^cv2\.imread$|^scipy\.io\.loadmat$"
    r"|^(tensorflow_datasets\.(load|builder)|datasets\.load_\w+)$"
    r"|(^|\.)keras\.(?:\w++\.)*+(\w+_dataset_from_directory|ImageDataGenerator)$"
)
"""Functions that read files, or make what does."""
_NO_INPUT: Final = ("mask", "training", "initial_state", "attention_mask")
_FITS: Final = ("fit", "evaluate", "train_on_batch")
_FOLLOWED: Final = frozenset((Routine, Class, Instance))
_Model: TypeAlias = Stack | Graph | Instance | Draft


def call(p: State, node: ast.Call) -> SourceValue:
    """Return what a call is, its arguments evaluated first."""
    p.step()
    if isinstance(node.func, ast.Name) and node.func.id == "super" and p.frames:
        frame = p.frames[-1]
        return Bound(frame.bound, "super", [frame.holder]) if frame.bound and frame.holder else Unknown("super()")
    func = p.value(node.func)
    given = _arguments(p, node)
    p.seen.calls.add(node)
    # A method of something that the file does not define has a name below builtins'.
    if type(func) is Unknown or (
        type(func) is Named and func.name.startswith("builtins.") and func.name.count(".") > 1
    ):
        p.seen.unsure.add(node)
    if p.aside:
        return _look(p, func, given, node)
    p.calling.append(node)
    made = _invoke(p, func, given, node)
    p.calling.pop()
    if type(made) is Unknown:
        return replace(made, read=True) if _reads(func, given) else made
    if (type(made) is Items or type(made) is Entries) and made.open and _reads(func, given):
        made.read = True
    return made


def _reads(func: SourceValue, given: Arguments) -> bool:
    """Return whether what a call returns is read from a file, or computed from what is."""
    if type(func) in _FOLLOWED:
        return False  # what it returns says so itself
    of = func.target if type(func) is Bound else func
    reads = type(of) is Named and _READERS.search(of.name) is not None
    return reads or any(is_read(value) for value in (of, *given.all))


def _arguments(p: State, node: ast.Call) -> Arguments:
    """Return what is passed by position and by name, as far as it is known."""
    given = Arguments([], {})
    for arg in node.args:
        if not isinstance(arg, ast.Starred):
            given.args.append(p.value(arg))
            continue
        spread = p.value(arg.value)
        found = elements(spread)
        given.args.extend(found if found is not None else tensors_of(spread))
        given.lacking = given.lacking or found is None
    for keyword in node.keywords:
        value = p.value(keyword.value)
        if keyword.arg is not None:
            given.keywords[keyword.arg] = value
            continue
        if type(value) is Entries:
            given.keywords.update({k: v for k, v in value.entries.items() if isinstance(k, str)})
        given.lacking = given.lacking or type(value) is not Entries or value.open is not None
    return given


def _look(p: State, func: SourceValue, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of a call that does not run here: only of what computes with constants."""
    if type(func) is Named and (func.name.startswith("builtins.") or func.name in FUNCTIONS):
        return call_module(p, func.name, given, node)
    if type(func) is Bound and type(func.target) is Entries and func.name in READS:
        return _method(p, func, given, node)
    if type(func) in _FOLLOWED or (type(func) is Bound and func.name == "partial"):
        p.seen.unsure.add(node)
    return result_of(node, *given.all)


def _invoke(p: State, func: SourceValue, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of calling a value."""
    if type(func) is Routine:
        return enter(p, func, given)
    if type(func) is Class:
        return construct(p, func, given, node)
    if type(func) is Instance:
        return apply_instance(p, func, given, node)
    if type(func) is Draft or type(func) is Stack or type(func) is Graph:
        if type(func) is Draft and (states := given.keywords.get("initial_state")) is not None:
            func.other += [*tensors_of(states)] or [Tensor()]
        return apply(p, func, [*given.args, *(v for k, v in given.keywords.items() if k not in _NO_INPUT)], node)
    if type(func) is Bound:
        return _bound(p, func, given, node)
    if type(func) is Unknown and isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
        return array_method(UNKNOWN_DATA, "reshape", given) or func  # no tensor of Keras or TensorFlow has it
    note_unknown(p, func, node)
    for arg in given.all:  # what is not followed may call functions from now on
        if type(arg) is Routine:
            p.hand(arg.node)
    if func == SAVED:
        p.saved.update(source for tensor in tensors_of(*given.all) for source in tensor.sources)
    made = call_module(p, func.name, given, node) if type(func) is Named else result_of(node, *given.all)
    followed = type(made) is Graph or (type(made) is Tensor and made.sources)
    if not followed and not (type(func) is Named and func.name.startswith("builtins.")):
        p.hand_on(*given.all)
    return made


def _bound(p: State, func: Bound, given: Arguments, node: ast.Call) -> SourceValue:
    of = func.target
    if func.name == "partial":
        whole = Arguments([*func.args, *given.args], {**func.keywords, **given.keywords}, given.lacking)
        return _invoke(p, of, whole, node)
    if type(of) is DataSet and func.name == "map" and type(given.first) is Routine:
        return DataSet(enter(p, given.first, Arguments(items_of(of.element) or [of.element], {})))
    if type(of) is Bound and of.name == "super":
        return inherited(p, of, func.name, given)
    return _method(p, func, given, node)


def _method(p: State, bound: Bound, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of a method of what is not the user's."""
    of, name, args = bound.target, bound.name, given.args
    if name in CHANGING and (p.conditions or p.doubts):
        shaken(of)
    if type(of) is DataSet:
        return of_data_set(of, name)
    if type(of) is Items:
        return of if name == "as_list" else through(of_list(of, name, args), of)
    if type(of) is Entries:
        return through(of_dictionary(of, name, args, given.keywords), of)
    if type(of) is Stack or type(of) is Graph or type(of) is Instance or type(of) is Draft:
        return _of_model(p, of, name, given, node)
    if type(of) is Known and isinstance(of.value, str) and (text := of_text(of.value, name, args)) is not None:
        return derived(text, of, *(a for a in args if type(a) is Known))
    if type(of) is CommandLine:
        return method(of, name, args, given.keywords, not p.conditions)
    if type(of) is Tensor and (made := array_method(of, name, given)) is not None:
        return made
    return result_of(node, of, *args)


def _of_model(p: State, of: _Model, name: str, given: Arguments, node: ast.Call) -> SourceValue:
    args = given.args
    note_training(p, of, name, given, node)
    if type(of) is Stack and name == "add" and args:
        add(p, of, args[0])
    elif name == "build" and type(of) is not Graph:
        shape = shape_from(given.get(0, "input_shape"))
        batchless = (None, *shape[1:]) if shape else None
        apply(p, of, [Tensor(batchless, None, (), type(of) is not Stack, True)], node)
    elif type(of) is Instance and name == "add_weight":
        # Keras 3 takes its shape first, Keras 2 behind its name.
        named = type(given.first) is Known and isinstance(given.first.value, str)
        return Tensor(shape_from(given.get(1 if named else 0, "shape")), None, (), False, False, None)
    elif name in ("call", "__call__", "predict", "predict_on_batch"):
        return apply(p, of, args[:1] if name.startswith("predict") else args, node)
    elif name == "compile":
        p.compiled[id(of)] = given
    elif name == "load_weights":
        note_loaded(p, of, given, node)
    elif name in _FITS and (fed := inputs_of(given.get(0, "x"))) is not None and tensors_of(fed):
        apply(p, of, [fed], node)  # its shape builds a model that has none yet
    elif name == "get_layer" and isinstance(of, (Stack, Graph)):
        wanted = given.get(0, "name")
        found = [d for d in p.layers.drafts if type(wanted) is Known and d.name == wanted.value]
        return found[0] if len(found) == 1 else Unknown("is the result of get_layer()")
    return NOTHING if name in ("add", "build", "compile", "summary") else Unknown(f"is the result of {name}()")
