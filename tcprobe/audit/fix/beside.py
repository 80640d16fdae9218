"""What must change beside the arguments of a model's own layers.

The user's own reshapes to channels that change, and in the other models of the file the layers that the same places
make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tcprobe.audit.fix.links import NotCertain, follow_changes, output_of
from tcprobe.audit.fix.slots import Slot, slots_of
from tcprobe.audit.fix.source.files import Files
from tcprobe.audit.fix.source.shapes import tails
from tcprobe.rules.model.links import LinkedChange
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step
    from tcprobe.source.calls import Call


def reshapes(changes: Sequence[LinkedChange], slots: Sequence[Slot], step: Step, files: Files) -> tuple[Slot, ...]:
    """Return where the user's own calls reshape an output that changes into channels that change with it.

    ``tf.reshape(x, (-1, 7, 7, 63))`` behind ``Dense(7 * 7 * 63)``; Reshape layers are among the slots already.

    Raises:
        NotCertain: an output becomes channels, and not exactly one call says so.
    """
    outputs = {c.layer: c for c in changes if c.dimension in OUTPUTS}
    found: dict[tuple[Place, int | None, int], Slot] = {}
    for change in changes if outputs else ():
        for output in (outputs[s] for s in step.sizes.feeds.get(change.layer, ()) if s in outputs):
            parts, rest = divmod(output.old, change.old)
            layer = any(slot.argument.name == "target_shape" and slot.old == change.old for slot in slots)
            if change.dimension in INPUTS and parts > 1 and not rest and not layer:
                slot = _reshape(change, output.old, {slot.source.path for slot in slots}, files)
                found[slot.key] = slot
    return tuple(found.values())


def _reshape(change: LinkedChange, whole: int, paths: Iterable[str], files: Files) -> Slot:
    trees = [files.tree(path) for path in paths]
    arguments = [(tree, c.arguments["shape"]) for tree in trees for c in tree.source.calls() if _is_reshape(c)]
    fitting = []
    for tree, argument in arguments:
        sizes = argument.known.value if argument.known else None
        if argument.known and isinstance(sizes, tuple) and sizes and sizes[-1] == change.old and whole in tails(sizes):
            fitting.append(Slot(tree.source, argument, (argument.known.elements[-1],), -1, change.old, change.new))
    if len(fitting) != 1:
        raise NotCertain(say("channels_unknown", channels=change.old, of=whole))
    return fitting[0]


def _is_reshape(call: Call) -> bool:
    return call.name in ("tensorflow.reshape", "keras.ops.reshape") and "shape" in call.arguments


def shared_slots(slots: Sequence[Slot], beside: Iterable[Step], files: Files) -> tuple[Slot, ...]:
    """Return what must change in other models of the file, which the same places make layers of.

    Raises:
        NotCertain: it cannot be told, as for the model that was asked of.
    """
    found: dict[tuple[Place, int | None, int], Slot] = {}
    for step in beside:
        starts = [
            (layer.name, slot.old, slot.new)
            for slot in slots
            for layer in step.model.layers
            if slot.argument.name == output_of(layer)
            and layer.arguments.get(slot.argument.name) == slot.argument.place
            and layer.config.get(slot.argument.name) == slot.old
        ]
        if starts:
            found.update({slot.key: slot for slot in slots_of(follow_changes(starts, step), step.model, files)})
    return tuple(found.values())
