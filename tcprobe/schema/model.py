"""An audited model: its layers, the products of one training step, and what could not be seen.

Tracing a model and reading its source both fill these classes, so a rule need not know which it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tcprobe.probe import constants
from tcprobe.schema.op import OpRecord, Shape
from tcprobe.schema.place import Place

Mode = Literal["traced", "source"]
SAMPLES: Final = constants.SAMPLES
"""Samples per step assumed where the model does not give its batch size."""


@dataclass(frozen=True, slots=True)
class InputShape:
    """What the user says a model's input is, where the code leaves it open.

    Attributes:
        name: of the input, model or class that has it; None for all that have no shape of their own.
        sizes: of one sample: without the batch; each from 1.
    """

    name: str | None
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the model.

    Attributes:
        name: its path (``generator/conv2d_1``); in source mode the ``name=`` argument, else the class in snake case
            with a counter, as Keras names layers.
        kind: the Keras class that it is or inherits from (``Conv2D``); its own class if there is none.
        class_name: its own class.
        place: where the user's code constructs it; None if unknown.
        dtype: dtype in which it computes; None if unknown.
        variable_dtype: dtype of its weights.
        input_shapes: batch first, None for an unknown dimension; empty if unknown.
        output_shape: of its first output.
        config: its known settings, named like Keras' arguments (``units``, ``filters``,
            ``kernel_size``, ``activation`` by name, ``epsilon``, ``groups``, ``num_heads``, ``key_dim``...).
        arguments: argument name -> where its value stands in the source; empty if unknown.
        inputs_from: names of the layers whose outputs it takes; empty if unknown or if it takes the model's input.
        is_first: whether it takes an input of the model; None if unknown.
        is_last: whether its output is an output of the model; None if unknown.
        calls: how often one step calls it.
        trainable: whether it has weights that training updates; None if unknown.
        samples: how many of a first input dimension that is None make one sample of the batch: 1 where it is the batch,
            64 where a reshape made 64 rows of each sample; None where unknown.
        also_from: names of those that its features must fit besides: what other calls of it take, and its initial
            state; an empty name where that is no layer's or unknown.
    """

    name: str
    kind: str
    class_name: str
    place: Place | None = None
    dtype: str | None = None
    variable_dtype: str | None = None
    input_shapes: tuple[Shape | None, ...] = ()
    output_shape: Shape | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Place] = field(default_factory=dict)
    inputs_from: tuple[str, ...] = ()
    is_first: bool | None = None
    is_last: bool | None = None
    calls: int = 1
    trainable: bool | None = None
    also_from: tuple[str, ...] = ()
    samples: int | None = 1


@dataclass(frozen=True, slots=True)
class Product:
    """One op of a training step that multiplies matrices or convolves.

    Attributes:
        record: type, shapes, attributes, dtype and pass; `tcprobe.gemm.ops.gemms_of` turns it into GEMMs.
        layer: name of its layer; None for an op that the user's code calls itself.
        calls: how often one step runs it.
        op: its name in the traced graph; in source mode layer and pass; there all passes of one op that the user's code
            calls itself have one name.
        inputs_from: names of the layers whose output features become the features of its first operand, possibly
            reshaped or joined on the way, but never mixed. Empty if they come from the model's input.
        compiled: whether XLA compiles the function that contains it; None if unknown.
        place: where the user's code constructs the layer or calls the op; None if unknown.
        sure: whether it is known to execute; if not, a change of it may save nothing.
    """

    record: OpRecord
    layer: str | None
    calls: float = 1.0
    op: str = ""
    inputs_from: tuple[str, ...] = ()
    compiled: bool | None = None
    place: Place | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that the audit met and could not judge.

    Attributes:
        what: its name in the user's words (``Dense at model.py:12: units``).
        reason: why not (``comes from a function argument``).
        place: where it stands.
    """

    what: str
    reason: str
    place: Place | None = None


NotJudgedKind = Literal["layer", "product", "model"]


@dataclass(frozen=True, slots=True)
class NotJudged:
    """Calls in a file that make what the audit does not understand, alike in library, kind and name.

    Attributes:
        library: as its users call it (``PyTorch``, ``TensorFlow 1``); else the package's import name.
        kind: a layer, a product that code calls by itself (``tf.matmul``), or a whole model whose layers are elsewhere.
        name: as code calls it (``Linear``).
        count: how many calls; of a class that models extend, how many classes.
        place: of the first.
    """

    library: str
    kind: NotJudgedKind
    name: str
    count: int
    place: Place


@dataclass(frozen=True, slots=True)
class Model:
    """One audited model or training step.

    Attributes:
        mode: how its shapes became known.
        label: what it is (``generator``, ``train_gan.py``).
        file: absolute path of the audited file.
        layers: every layer seen, in order of construction or call.
        products: every product of one step, except those whose result nothing uses.
        batch: samples per step in the products; `SAMPLES` if nobody gave a number.
        batch_known: whether the model or the user said so.
        batch_by_default: whether that number is what Keras' `fit` takes of arrays where it is told none.
        policy: global precision policy at the end (``mixed_float16``); None if unknown.
        xla: whether XLA compiles the step; None if unknown.
        keras: version of Keras; None if unknown.
        tensorflow: version of TensorFlow; None if unknown.
        own_step: True if the file only builds a model, so that the training step is one that tcprobe made up.
        unseen: what could not be judged.
        notes: what limits the audit, one sentence each (``stopped at the first training step of an import``).
        incomplete: whether statements of its file failed, so that others may not have been run.
        inputs: where shapes are given, a name of each input that the code leaves open.
        answered: the names of given shapes that an input has.
        policy_assumed: True if nothing sets a precision policy, so that Keras' default is assumed.
        not_judged: what the audit does not understand: layers of other frameworks, products of unknown sizes.
    """

    mode: Mode
    label: str
    file: str
    layers: tuple[Layer, ...] = ()
    products: tuple[Product, ...] = ()
    batch: int = SAMPLES
    batch_known: bool = False
    policy: str | None = None
    xla: bool | None = None
    keras: str | None = None
    tensorflow: str | None = None
    own_step: bool = False
    unseen: tuple[Unseen, ...] = ()
    notes: tuple[str, ...] = ()
    incomplete: bool = False
    inputs: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    policy_assumed: bool = False
    batch_by_default: bool = False
    not_judged: tuple[NotJudged, ...] = ()

    def layer(self, name: str | None) -> Layer | None:
        """Return the layer of this name; None if there is none."""
        return next((layer for layer in self.layers if layer.name == name), None)
