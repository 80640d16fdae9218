"""What a value of the user's program can be, as far as reading it tells.

No kind extends another: `type(value) is Tensor` tells one, as fast for a no as for a yes; `isinstance` takes eight
times as long for a no where classes are msgspec's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr

from tcprobe.keras.products.layers import OwnOp
from tcprobe.schema.model import Place
from tcprobe.schema.op import Shape, Size, known_shape, known_size
from tcprobe.source.scopes import FunctionNode
from tcprobe.source.source import Source
from tcprobe.source.values import Doubts, Known


class Unknown(Struct, frozen=True, gc=False):
    """A value that cannot be told."""

    reason: str  # why not
    read: bool = False  # whether a file decides it that the program reads as it runs


class Named(Struct, frozen=True, gc=False):
    """Something of another module, by its name as imported (``tensorflow.float16``)."""

    name: str


class Tensor(Struct, frozen=True, gc=False):
    """A tensor."""

    shape: Shape | None = None  # batch first; None where the rank is unknown
    features: Size = None  # its last dimension, which may be known where the rank is not
    sources: tuple[str, ...] = ()  # names of the layers whose outputs it is
    symbolic: bool = False  # whether it comes from an input of a model, so that what takes it is part of the model
    fresh: bool | None = None  # whether no layer with weights lies between it and the data; None where unknown
    # how many of the dimension that is the batch's make one sample: 1 where it is the batch itself; None where unknown,
    # or no dimension is the batch's
    rows: Size = 1
    batch: int = 0  # which dimension that is

    def __post_init__(self) -> None:
        """Leave unknown what was worked out as a size and is none; such a one is no batch either."""
        if self.shape is not None and (sizes := known_shape(self.shape)) != self.shape:
            if self.batch < len(sizes) and sizes[self.batch] != self.shape[self.batch]:
                force_setattr(self, "rows", None)
            force_setattr(self, "shape", sizes)
        if self.features is not None:
            force_setattr(self, "features", known_size(self.features))
        if (rows := known_size(self.rows)) is not self.rows:
            force_setattr(self, "rows", rows)

    @property
    def last(self) -> Size:
        """The last dimension, None where unknown."""
        return self.shape[-1] if self.shape else self.features

    @property
    def samples(self) -> Size:
        """How many of the first dimension make one sample of the batch; None where it is not the batch's."""
        return self.rows if self.batch == 0 else None


class DataSet(Struct, frozen=True, eq=False):
    """A data set of `tf.data`, by what one of its elements is."""

    element: SourceValue


class Items(Struct, eq=False):
    """A list or tuple of anything; `open` says why there may be more in it."""

    items: list[SourceValue]
    open: str | None = None
    doubts: Doubts = frozenset()
    read: bool = False  # whether a file decides what may be in it, as in `Unknown`


class Entries(Struct, eq=False):
    """A dictionary."""

    entries: dict[Any, SourceValue]  # its values by their keys
    open: str | None = None  # why it may hold something else
    keys: dict[Any, Known] = field(default_factory=dict)  # the keys that the file writes, with the doubts about them
    doubts: Doubts = frozenset()
    read: bool = False  # whether a file decides what it may hold, as in `Unknown`

    def key(self, key: Any) -> Known:
        """Return a key as a value."""
        return self.keys.get(key) or Known(key)

    def put(self, key: SourceValue, value: SourceValue) -> None:
        """Add a value under a key that the file writes; there may be others where the key is not known."""
        if type(key) is Known:
            self.entries[key.value], self.keys[key.value] = value, key
        else:
            self.open = self.open or "has a key that is not known"


class CommandLine(Struct, eq=False):
    """A parser of a command line and what it fills."""

    entries: dict[str, SourceValue]  # values by the options' names
    open: str | None = None  # why there may be others
    given: bool = False  # whether the file itself gives the values, not the command line
    words: tuple[str, ...] = ()  # of the command line that it parses, where the user gives one


class Draft(Struct, eq=False):
    """A layer in the making; the fields are those of `tcprobe.schema.model.Layer`."""

    name: str
    kind: str
    node: ast.Call
    place: Place
    config: dict[str, Any]
    arguments: dict[str, Place]
    missing: dict[str, str]  # why an argument is not known, by name
    read: set[str]  # those that a file decides which the program reads as it runs
    dtype: str | None
    variable_dtype: str | None
    trainable: bool | None
    applied: int = 0
    calls: int = 1
    wrapped: bool = False  # whether a wrapper holds it
    inputs: list[Tensor] = field(default_factory=list)
    # what further calls take that the first does not, and initial states
    other: list[Tensor] = field(default_factory=list)
    function: SourceValue | None = None  # what a Lambda computes; None for other layers
    output: Tensor | None = None
    is_first: bool | None = None
    is_last: bool | None = None


Sites: TypeAlias = dict[ast.AST | None, set[ast.Call]]
"""Where a model is called with data, by the function around: those of one function are in one step."""


class Stack(Struct, eq=False):
    """A Sequential model."""

    parts: list[SourceValue] = field(default_factory=list)
    optional: set[int] = field(default_factory=set)  # the indexes of parts that the program may leave out
    given: Tensor | None = None
    output: Tensor | None = None
    uses: int = 0
    built: int = 0
    names: Sequence[str] = ()  # what it is known by, where the user gives shapes
    place: Place | None = None  # where it is constructed
    sites: Sites = field(default_factory=dict)


class Graph(Struct, eq=False):
    """A functional model."""

    inputs: SourceValue
    outputs: SourceValue
    uses: int = 0
    place: Place | None = None  # where it is constructed
    sites: Sites = field(default_factory=dict)


class Env(Struct, eq=False):
    """Variables of one frame."""

    parent: Env | None = None  # the frame around it; None for a module's
    vars: dict[str, SourceValue] = field(default_factory=dict)  # the variables by name
    home: Source | None = None  # the file whose code runs in it
    # of a module that is imported, follows what sets a variable which is asked for first
    load: Callable[[str], SourceValue | None] | None = None

    def __post_init__(self) -> None:
        if self.home is None and self.parent is not None:
            self.home = self.parent.home

    def with_vars(self, variables: dict[str, SourceValue]) -> Env:
        """Return the same frame with other variables."""
        return Env(self.parent, variables, self.home, self.load)

    def find(self, name: str) -> SourceValue | None:
        """Return a variable of this frame or of those around it; None where there is none."""
        here: Env | None = self
        while here is not None:
            found = here.vars.get(name)
            if found is not None:
                if type(found) is Awaited:
                    here.vars[name] = Unknown(f"{name} is imported in a circle")
                    found = here.vars[name] = found.read()
                return found
            if here.load is not None:
                return here.load(name)
            here = here.parent
        return None


class Multiplied(Struct, eq=False):
    """One product of the user's own."""

    op: OwnOp  # which product
    name: str  # the last part of the function's name
    # a, b: of which tensors.
    a: Tensor
    b: Tensor
    settings: dict[str, Any]  # as `tcprobe.keras.products.layers.own_records` takes them
    dtype: str | None  # that it computes in; None where unknown
    place: Place  # where it stands
    node: ast.expr  # the call, or the expression with the operator
    within: Training | None = None  # the loop that it first ran in, or what takes a gradient of it
    # how often it ran, by the variables of the function around it: each call of a function has its own
    runs: dict[Env, int] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """How often one step runs it: as often as one call of the function around it does."""
        return max(self.runs.values())


class Routine(Struct, eq=False):
    """A function of the file, bound to an instance where it is a method."""

    node: FunctionNode | ast.Lambda
    env: Env
    defaults: Keywords  # of its parameters by name, evaluated where it is defined, as Python does: calls share them
    bound: SourceValue | None = None
    holder: Class | None = None


class Class(Struct, eq=False):
    """A class of the file."""

    node: ast.ClassDef
    env: Env
    bases: list[SourceValue]
    members: dict[str, SourceValue] = field(default_factory=dict)


class Instance(Struct, eq=False):
    """An object of a class of the file."""

    of: Class
    attrs: dict[str, SourceValue]
    # ``model``, ``layer`` or the name of Keras' class that it extends; None where it is none of Keras'
    keras: str | None = None
    uses: int = 0
    is_inner: bool = False  # whether the `call` of another model or layer calls it
    output: SourceValue | None = None
    doubts: Doubts = frozenset()
    sites: Sites = field(default_factory=dict)
    names: Sequence[str] = ()  # what it is known by, where the user gives shapes
    place: Place | None = None  # where it is constructed


class Module(Struct, frozen=True, eq=False):
    """Another file of the audited tree, imported; `member` returns an attribute of it."""

    path: str
    env: Env
    member: Callable[[str], SourceValue]


class Training(Struct, eq=False):
    """A `fit`, or a loop that no other one is around, which may train by tapes or batch by batch."""

    node: ast.AST | None = None  # the call or the loop; None for what takes gradients outside any loop
    place: Place | None = None  # of the first call that trains; None where nothing in it does
    models: dict[int, SourceValue] = field(default_factory=dict)  # the models and layers that it calls, by their ids
    fits: bool = False  # whether it is a `fit`
    tapes: bool = False  # whether it takes gradients itself
    frozen: frozenset[str] = frozenset()  # the layers that it leaves as they are, by name
    made: int = 0  # how many layers there were when it began
    batch: int | None = None  # samples of a step that a `fit` is told; None where it is not, or not known
    rows: set[int] = field(default_factory=set)  # how many samples of data a loop hands to what it calls


class Awaited(Struct, frozen=True, eq=False):
    """What an import binds, before it is read: then `read` returns what it is."""

    read: Callable[[], SourceValue]


class Bound(Struct, eq=False):
    """A method of something that is not the user's, still to be called, or a function with arguments in hand."""

    target: SourceValue
    name: str
    args: list[SourceValue] = field(default_factory=list)
    keywords: dict[str, SourceValue] = field(default_factory=dict)


class Arguments(Struct):
    """What a call is given; `lacking` where more is passed than is known."""

    args: list[SourceValue]
    keywords: Keywords
    lacking: bool = False

    @property
    def all(self) -> list[SourceValue]:
        """Every argument, those by position first."""
        return [*self.args, *self.keywords.values()]

    @property
    def first(self) -> SourceValue | None:
        """The first by position; None where there is none."""
        return self.args[0] if self.args else None

    def get(self, index: int, name: str) -> SourceValue | None:
        """Return an argument that is passed by position, else by name; None where it is passed neither way."""
        return self.args[index] if len(self.args) > index else self.keywords.get(name)


SourceValue: TypeAlias = (
    Known
    | Unknown
    | Named
    | Tensor
    | DataSet
    | Items
    | Entries
    | CommandLine
    | Draft
    | Stack
    | Graph
    | Routine
    | Class
    | Instance
    | Module
    | Awaited
    | Bound
)
Keywords: TypeAlias = dict[str, SourceValue]
NOTHING: Final = Known(None)
BATCH: Final = Unknown("is the batch, which is not known")
"""The dimension of a tensor that is the batch: itself, not what is computed with it."""
SAVED: Final = Unknown("is a model that was saved")
