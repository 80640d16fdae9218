"""What an audit knows of a model: its layers, the products of one training step, and what was not seen.

Both ways to know it (traced by running it, or read from its source) fill the same classes; a rule need not ask which.
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
"""Samples that a step is costed for where the model does not say how large its batch is."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the model.

    Attributes:
        name: path of its names (``generator/conv2d_1``); in source mode the ``name=`` argument, else the class in
            snake case with a counter, as Keras names it.
        kind: the class of Keras' own that it is or inherits from (``Conv2D``); its own class where there is none.
        class_name: its own class.
        place: where the user's code constructs it, None where unknown.
        dtype: dtype in which it computes; None where unknown.
        variable_dtype: dtype of its weights.
        input_shapes: with the batch first, None for an unknown dimension; empty where unknown.
        output_shape: of its first output.
        config: its settings under the names of Keras' arguments, as far as known (``units``, ``filters``,
            ``kernel_size``, ``activation`` by name, ``epsilon``, ``groups``, ``num_heads``, ``key_dim``...).
        arguments: where the values of arguments stand in the source, by argument name; empty where unknown.
        inputs_from: names of the layers whose outputs it takes; empty where unknown or where that is the model's input.
        is_first: whether it takes an input of the model; None where unknown.
        is_last: whether its output is one of the model's; None where unknown.
        calls: how often one step calls it.
        trainable: whether it has weights that training updates; None where unknown.
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


@dataclass(frozen=True, slots=True)
class Product:
    """One op of a training step that multiplies matrices.

    Attributes:
        record: type, shapes, attributes, dtype and pass; `tcprobe.gemm.ops.gemms_of` turns it into GEMMs.
        layer: name of its layer; None for an op of the user's own.
        calls: executions in one step.
        op: its name in the traced graph; in source mode layer and pass.
        inputs_from: names of the layers whose output features arrive as the features of this op's first operand,
            whole, reshaped or joined; only ops that keep features apart lie between. Empty where that is the model's
            input.
        compiled: whether XLA compiles the function around it; None where unknown.
        place: where the user's code constructs the layer, or calls the op; None where unknown.
    """

    record: OpRecord
    layer: str | None
    calls: float = 1.0
    op: str = ""
    inputs_from: tuple[str, ...] = ()
    compiled: bool | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that an audit met and could not judge.

    Attributes:
        what: in the user's words (``Dense at model.py:12: units``).
        reason: why (``comes from a function argument``).
        place: where.
    """

    what: str
    reason: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """One audited model or training step.

    Attributes:
        mode: how its shapes are known.
        label: what it is (``generator``, ``train_gan.py``).
        file: absolute path of the audited file.
        layers: every layer that was seen, in the order of construction or call.
        products: every product of one step, those that nothing needs left out.
        batch: samples of one step that products count; `SAMPLES` where nobody said.
        batch_known: whether the model or the user said so.
        policy: global precision policy at the end (``mixed_float16``); None where unknown.
        xla: whether XLA compiles the step; None where unknown.
        keras: version of Keras; None where unknown.
        tensorflow: version of TensorFlow; None where unknown.
        own_step: whether the training step is tcprobe's own, because the file only builds a model.
        unseen: what could not be judged.
        notes: one sentence each on what limits the audit (``stopped at the first training step of an import``).
        policy_assumed: whether Keras' default precision is assumed, as nothing sets one.
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
    policy_assumed: bool = False

    def layer(self, name: str | None) -> Layer | None:
        """Return the layer of this name, None where there is none."""
        return next((layer for layer in self.layers if layer.name == name), None)
