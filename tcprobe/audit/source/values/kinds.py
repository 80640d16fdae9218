"""What a value of the user's program can be, as far as reading it tells."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tcprobe.schema.op import Shape, Size, known_shape, known_size
from tcprobe.schema.place import Place
from tcprobe.source.scopes import FunctionNode
from tcprobe.source.source import Source
from tcprobe.source.values import Choices, Doubt, Known


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that cannot be told.

    Attributes:
        reason: why not.
        options: what it may be, each under the choices that lead to it.
        complete: whether it can be nothing else.
    """

    reason: str
    options: tuple[Option, ...] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Guess:
    """Where a value is taken for granted that may be another, as by an option of the command line.

    Attributes:
        options: all that it may be, itself among them; empty where nobody can tell.
        doubts: why it may be another.
    """

    options: tuple[Option, ...]
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """Something of another module, by its name as imported (``tensorflow.float16``)."""

    name: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor.

    Attributes:
        shape: batch first; None where the rank is unknown.
        features: its last dimension, which may be known where the rank is not.
        sources: names of the layers whose outputs it is.
        symbolic: whether it comes from an input of a model, so that what takes it is part of the model.
        fresh: whether no layer with weights lies between it and the data; None where unknown.
        rows: how many of the dimension that is the batch's make one sample: 1 where it is the batch itself; None where
            unknown, or no dimension is the batch's.
        batch: which dimension that is.
    """

    shape: Shape | None = None
    features: Size = None
    sources: tuple[str, ...] = ()
    symbolic: bool = False
    fresh: bool | None = None
    rows: Size = 1
    batch: int = 0

    def __post_init__(self) -> None:
        """Leave unknown what was worked out as a size and is none; such a one is no batch either."""
        if self.shape is not None and (sizes := known_shape(self.shape)) != self.shape:
            if self.batch < len(sizes) and sizes[self.batch] != self.shape[self.batch]:
                object.__setattr__(self, "rows", None)
            object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "features", known_size(self.features))
        object.__setattr__(self, "rows", known_size(self.rows))

    @property
    def last(self) -> Size:
        """The last dimension, None where unknown."""
        return self.shape[-1] if self.shape else self.features

    @property
    def samples(self) -> Size:
        """How many of the first dimension make one sample of the batch; None where it is not the batch's."""
        return self.rows if self.batch == 0 else None


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """A data set of `tf.data`, by what one of its elements is."""

    element: SourceValue


@dataclass(slots=True, eq=False)
class Items:
    """A list or tuple of anything; `open` says why there may be more in it, `guess` what it may be instead."""

    items: list[SourceValue]
    open: str | None = None
    guess: Guess | None = None


@dataclass(slots=True, eq=False)
class Entries:
    """A dictionary.

    Attributes:
        entries: its values by their keys.
        open: why it may hold something else.
        keys: the keys that the file writes, with the doubts about them.
        guess: what it may be instead; None where it is this one.
    """

    entries: dict[Any, SourceValue]
    open: str | None = None
    keys: dict[Any, Known] = field(default_factory=dict)
    guess: Guess | None = None

    def key(self, key: Any) -> Known:
        """Return a key as a value."""
        return self.keys.get(key) or known_constant(key)


@dataclass(slots=True, eq=False)
class CommandLine:
    """A parser of a command line and what it fills.

    Attributes:
        entries: values by the options' names.
        open: why there may be others.
        given: whether the file itself gives the values, not the command line.
    """

    entries: dict[str, SourceValue]
    open: str | None = None
    given: bool = False


@dataclass(slots=True, eq=False)
class Draft:
    """A layer in the making; the fields are those of `tcprobe.schema.model.Layer`.

    Attributes:
        missing: why an argument is not known, by name.
        wrapped: whether a wrapper holds it.
        other: what further calls take that the first does not, and initial states.
        function: what a Lambda computes; None for other layers.
    """

    name: str
    kind: str
    node: ast.Call
    place: Place
    config: dict[str, Any]
    arguments: dict[str, Place]
    missing: dict[str, str]
    dtype: str | None
    variable_dtype: str | None
    trainable: bool | None
    applied: int = 0
    calls: int = 1
    wrapped: bool = False
    inputs: list[Tensor] = field(default_factory=list)
    other: list[Tensor] = field(default_factory=list)
    function: SourceValue | None = None
    output: Tensor | None = None
    is_first: bool | None = None
    is_last: bool | None = None


@dataclass(slots=True, eq=False)
class Stack:
    """A Sequential model.

    Attributes:
        optional: the indexes of parts that the program may leave out.
        names: what it is known by, where the user gives shapes.
    """

    parts: list[SourceValue] = field(default_factory=list)
    optional: set[int] = field(default_factory=set)
    given: Tensor | None = None
    output: Tensor | None = None
    uses: int = 0
    built: int = 0
    names: Sequence[str] = ()


@dataclass(slots=True, eq=False)
class Graph:
    """A functional model."""

    inputs: SourceValue
    outputs: SourceValue
    uses: int = 0


@dataclass(slots=True, eq=False)
class Env:
    """Variables of one frame.

    Attributes:
        parent: the frame around it; None for a module's.
        vars: the variables by name.
        home: the file whose code runs in it.
        load: of a module that is imported, follows what sets a variable which is asked for first.
    """

    parent: Env | None = None
    vars: dict[str, SourceValue] = field(default_factory=dict)
    home: Source | None = None
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
            if name in here.vars:
                found = here.vars[name]
                if isinstance(found, Awaited):
                    here.vars[name] = Unknown(f"{name} is imported in a circle")
                    found = here.vars[name] = found.read()
                return found
            if here.load is not None:
                return here.load(name)
            here = here.parent
        return None


@dataclass(slots=True, eq=False)
class Routine:
    """A function of the file, bound to an instance where it is a method.

    Attributes:
        defaults: of its parameters by name, evaluated where it is defined, as Python does: calls share them.
    """

    node: FunctionNode | ast.Lambda
    env: Env
    defaults: Keywords
    bound: SourceValue | None = None
    holder: Class | None = None


@dataclass(slots=True, eq=False)
class Class:
    """A class of the file."""

    node: ast.ClassDef
    env: Env
    bases: list[SourceValue]
    members: dict[str, SourceValue] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Instance:
    """An object of a class of the file.

    Attributes:
        keras: ``model``, ``layer`` or the name of Keras' class that it extends; None where it is none of Keras'.
        sites: where it is called with data, by the function around: those of one function are in one step.
        guess: what it may be instead; None where it is this one.
        names: what it is known by, where the user gives shapes.
    """

    of: Class
    attrs: dict[str, SourceValue]
    keras: str | None = None
    uses: int = 0
    output: SourceValue | None = None
    guess: Guess | None = None
    sites: dict[ast.AST | None, set[ast.Call]] = field(default_factory=dict)
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """Another file of the audited tree, imported; `member` returns an attribute of it."""

    path: str
    env: Env
    member: Callable[[str], SourceValue]


@dataclass(frozen=True, slots=True, eq=False)
class Awaited:
    """What an import binds, before it is read: then `read` returns what it is."""

    read: Callable[[], SourceValue]


@dataclass(slots=True, eq=False)
class Bound:
    """A method of something that is not the user's, still to be called, or a function with arguments in hand."""

    target: SourceValue
    name: str
    args: list[SourceValue] = field(default_factory=list)
    keywords: dict[str, SourceValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arguments:
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
Option: TypeAlias = tuple[SourceValue, Choices]
NO_CHOICE: Final[Choices] = frozenset()
NOTHING = Known(None, ast.Constant(None))
BATCH: Final = Unknown("is the batch, which is not known")
"""The dimension of a tensor that is the batch: itself, not what is computed with it."""


def known_constant(value: Any, node: ast.expr | None = None) -> Known:
    """Return a constant that stands in no file."""
    return Known(value, node or ast.Constant(value))
