"""An audited model: its layers, the products of one training step, and what could not be seen.

Tracing a model and reading its source both fill these classes, so a rule need not know which it was.

`Place`: where something stands in a source file or notebook of the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field

from tcprobe.probe import constants
from tcprobe.schema.op import OpRecord, Shape


class CellLine(Struct, frozen=True, order=True):
    """A line of a cell of a notebook."""

    cell: int  # number of the cell, from 1; those that hold no code count
    line: int  # line within the cell, from 1
    row: int  # line of the notebook's own file on which it stands, from 1


class Place(Struct, frozen=True, order=True):
    """A range of text in a source file."""

    file: str  # absolute path
    line: int  # first line, from 1; in a notebook that of the module that its cells make together
    column: int = 1  # first column, in characters from 1; 1 if only the line is known
    end_line: int | None = None  # last line; None if only the start is known
    end_column: int | None = None  # column after the last character, from 1; None if only the start is known
    in_cell: CellLine | None = None  # where its first line stands in a notebook; None in any other file

    @property
    def position(self) -> str:
        """Return the first line as people are told it: ``12``, or ``cell 3:5`` in a notebook."""
        return str(self.line) if self.in_cell is None else f"cell {self.in_cell.cell}:{self.in_cell.line}"

    @classmethod
    def parse(cls, text: str | None) -> Place | None:
        """Return the place written as ``file:line``, as the probe writes it; None if the text has another form."""
        file, colon, line = (text or "").rpartition(":")
        known = line.isdecimal() and len(line) < 10 and int(line)
        return cls(file, int(line)) if colon and file and known else None


Mode = Literal["traced", "source"]
FixedBy = Literal["input", "data", "labels", "file", "package"]
"""What else than its layer sets a size: the input that the next model declares, data that are added to it, how many
labels there are, a file of weights, the package that makes the layer."""
SAMPLES: Final = constants.SAMPLES
"""Samples per step assumed where the model does not give its batch size."""


class InputShape(Struct, frozen=True):
    """What the user says a model's input is, where the code leaves it open."""

    name: str | None  # of the input, model or class that has it; None for all that have no shape of their own
    sizes: tuple[int, ...]  # of one sample: without the batch; each from 1


class Layer(Struct, frozen=True):
    """One layer of the model."""

    # its path (``generator/conv2d_1``); in source mode the ``name=`` argument, else the class in snake case with a
    # counter, as Keras names layers
    name: str
    kind: str  # the Keras class that it is or inherits from (``Conv2D``); its own class if there is none
    class_name: str  # its own class
    place: Place | None = None  # where the user's code constructs it; None if unknown
    dtype: str | None = None  # dtype in which it computes; None if unknown
    variable_dtype: str | None = None  # dtype of its weights
    input_shapes: tuple[Shape | None, ...] = ()  # batch first, None for an unknown dimension; empty if unknown
    output_shape: Shape | None = None  # of its first output
    # its known settings, named like Keras' arguments (``units``, ``filters``, ``kernel_size``, ``activation`` by name,
    # ``epsilon``, ``groups``, ``num_heads``, ``key_dim``...)
    config: Mapping[str, Any] = field(default_factory=dict)
    # argument name -> where its value stands in the source; empty if unknown
    arguments: Mapping[str, Place] = field(default_factory=dict)
    # names of the layers whose outputs it takes; empty if unknown or if it takes the model's input
    inputs_from: tuple[str, ...] = ()
    is_first: bool | None = None  # whether it takes an input of the model; None if unknown
    is_last: bool | None = None  # whether its output is an output of the model; None if unknown
    calls: int = 1  # how often one step calls it
    trainable: bool | None = None  # whether it has weights that training updates; None if unknown
    # names of those that its features must fit besides: what other calls of it take, and its initial state; an empty
    # name where that is no layer's or unknown
    also_from: tuple[str, ...] = ()
    # how many of a first input dimension that is None make one sample of the batch: 1 where it is the batch, 64 where a
    # reshape made 64 rows of each sample; None where unknown
    samples: int | None = 1
    fixed_by: FixedBy | None = None  # what sets how many features it puts out, if it is not the layer's to choose


class Product(Struct, frozen=True):
    """One op of a training step that multiplies matrices or convolves."""

    record: OpRecord  # type, shapes, attributes, dtype and pass; `tcprobe.gemm.ops.gemms_of` turns it into GEMMs
    layer: str | None  # name of its layer; None for an op that the user's code calls itself
    calls: float = 1.0  # how often one step runs it
    # its name in the traced graph; in source mode layer and pass; there all passes of one op that the user's code calls
    # itself have one name
    op: str = ""
    # names of the layers whose output features become the features of its first operand, possibly reshaped or joined on
    # the way, but never mixed. Empty if they come from the model's input.
    inputs_from: tuple[str, ...] = ()
    compiled: bool | None = None  # whether XLA compiles the function that contains it; None if unknown
    place: Place | None = None  # where the user's code constructs the layer or calls the op; None if unknown
    sure: bool = True  # whether it is known to execute; if not, a change of it may save nothing


class Unseen(Struct, frozen=True):
    """Something that the audit met and could not judge."""

    what: str  # its name in the user's words (``Dense at model.py:12: units``)
    reason: str  # why not (``comes from a function argument``)
    place: Place | None = None  # where it stands
    layer: str | None = None  # name of the layer that it is, or is of; None of others
    read: bool = False  # whether a file decides it that the program reads as it runs


NotJudgedKind = Literal["layer", "product", "model"]


class NotJudged(Struct, frozen=True):
    """Calls in a file that make what the audit does not understand, alike in library, kind and name."""

    library: str  # as its users call it (``PyTorch``, ``TensorFlow 1``); else the package's import name
    # a layer, a product that code calls by itself (``tf.matmul``), or a whole model whose layers are elsewhere
    kind: NotJudgedKind
    name: str  # as code calls it (``Linear``)
    count: int  # how many calls; of a class that models extend, how many classes
    place: Place  # of the first


class GpuAsked(Struct, frozen=True):
    """A call that asks for a GPU and was told of one, as on the machine that the audit is for."""

    call: str  # the function's full name (``tensorflow.config.list_physical_devices``)
    place: Place | None = None  # where it stands; None if unknown


class Model(Struct, frozen=True):
    """One audited model or training step."""

    mode: Mode  # how its shapes became known
    label: str  # what it is (``generator``, ``train_gan.py``)
    file: str  # absolute path of the audited file
    layers: tuple[Layer, ...] = ()  # every layer seen, in order of construction or call
    products: tuple[Product, ...] = ()  # every product of one step, except those whose result nothing uses
    batch: int = SAMPLES  # samples per step in the products; `SAMPLES` if nobody gave a number
    batch_known: bool = False  # whether the model or the user said so
    batch_varies: bool = False  # whether a step is the mean of some of unlike batch: that number is the commonest
    policy: str | None = None  # global precision policy at the end (``mixed_float16``); None if unknown
    tf32_off: bool = False  # whether its code forbids that float32 runs as TF32
    xla: bool | None = None  # whether XLA compiles the step; None if unknown
    xla_by_default: bool = False  # whether that is what Keras 3 does of itself, where nothing says otherwise
    keras: str | None = None  # version of Keras; None if unknown
    tensorflow: str | None = None  # version of TensorFlow; None if unknown
    # True if the file only builds a model, so that the training step is one that tcprobe made up
    own_step: bool = False
    unseen: tuple[Unseen, ...] = ()  # what could not be judged
    # what limits the audit, one sentence each (``stopped at the first training step of an import``)
    notes: tuple[str, ...] = ()
    incomplete: bool = False  # whether its file was left before its end: it raised, or trains in a loop of its own
    inputs: tuple[str, ...] = ()  # where shapes are given, a name of each input that the code leaves open
    answered: tuple[str, ...] = ()  # the names of given shapes that an input has
    policy_assumed: bool = False  # True if nothing sets a precision policy, so that Keras' default is assumed
    batch_by_default: bool = False  # whether that number is what Keras' `fit` takes of arrays where it is told none
    # what the audit does not understand: layers of other frameworks, products of unknown sizes
    not_judged: tuple[NotJudged, ...] = ()
    gpu_asked: tuple[GpuAsked, ...] = ()  # where its code asks for a GPU: it was followed as on a machine with one
    gpu_hidden: bool = False  # whether its code hides all GPUs from itself

    def layer(self, name: str | None) -> Layer | None:
        """Return the layer of this name; None if there is none."""
        return next((layer for layer in self.layers if layer.name == name), None)
