"""Functions that contract dimensions: ``matmul``, ``dot``, ``tensordot``, ``einsum``."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from tcprobe.audit.source.arrays.call import ArrayCall, made_of
from tcprobe.audit.source.arrays.elementwise import broadcast
from tcprobe.audit.source.kinds import SourceValue, Tensor
from tcprobe.schema.op import Shape, Size
from tcprobe.source.values import Known


def _of_two(rule: Callable[[ArrayCall, Tensor, Tensor], Tensor | None]) -> Callable[[ArrayCall], Tensor | None]:
    """Make a rule of one for two tensors: of anything else nothing is known of the result."""

    def followed(call: ArrayCall) -> Tensor | None:
        a, b = call.values.get("a"), call.values.get("b")
        return rule(call, a, b) if type(a) is Tensor and type(b) is Tensor else None

    return followed


@_of_two
def matmul(call: ArrayCall, a: Tensor, b: Tensor) -> Tensor | None:
    """Return the product of two tensors, each a matrix or a batch of them."""
    turned = (call.flag("transpose_a"), call.flag("transpose_b"))
    return None if None in turned else multiplied(_turned(a, turned[0]), _turned(b, turned[1]))


def _turned(tensor: Tensor, turn: bool | None) -> Tensor:
    if not turn or tensor.shape is None or len(tensor.shape) < 2:
        return tensor
    shape = (*tensor.shape[:-2], tensor.shape[-1], tensor.shape[-2])
    return made_of([tensor], shape, tensor.samples if len(shape) > 2 else None)


def multiplied(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two tensors as ``a @ b`` has it."""
    if not a.shape or not b.shape:
        return made_of([a, b], None)
    left, right = (a.shape if len(a.shape) > 1 else (1, *a.shape)), (b.shape if len(b.shape) > 1 else (*b.shape, 1))
    outer = broadcast(left[:-2], right[:-2])
    sizes = [*outer, left[-2], right[-1]]
    if len(b.shape) == 1:
        sizes.pop()
    if len(a.shape) == 1:
        sizes.pop(len(outer))
    return made_of([a, b], tuple(sizes), _samples([a, b], len(outer)))


def _samples(tensors: list[Tensor], outer: int) -> Size:
    """Return the samples of a product: of those that have its first dimension."""
    if not outer:
        return tensors[0].samples if tensors[0].shape and len(tensors[0].shape) > 1 else None
    found = {t.samples for t in tensors if t.shape and len(t.shape) == outer + 2 and t.shape[0] is None}
    return found.pop() if len(found) == 1 else None


@_of_two
def dot(_: ArrayCall, a: Tensor, b: Tensor) -> Tensor | None:
    """Return the product of the last dimension of one with the last but one of the other."""
    if not a.shape or not b.shape:
        return None
    right = b.shape[:-1] if len(b.shape) == 1 else (*b.shape[:-2], b.shape[-1])
    return made_of([a, b], (*a.shape[:-1], *right), a.samples if len(a.shape) > 1 else None)


@_of_two
def tensordot(call: ArrayCall, a: Tensor, b: Tensor) -> Tensor | None:
    """Return the product along so many dimensions: the last of one, the first of the other."""
    count = call.number("axes")
    if a.shape is None or b.shape is None or count is None or not 0 <= count <= min(len(a.shape), len(b.shape)):
        return None
    left = a.shape[: len(a.shape) - count]
    return made_of([a, b], (*left, *b.shape[count:]), a.samples if left else None)


def einsum(call: ArrayCall) -> SourceValue | None:
    """Return what an equation makes of its operands."""
    equation, tensors = call.values.get("equation"), call.rest
    if type(equation) is not Known or not isinstance(equation.value, str) or "->" not in equation.value:
        return None
    shapes = [t.shape for t in tensors if type(t) is Tensor and t.shape is not None]
    operands = [t for t in tensors if type(t) is Tensor]
    found = _labelled(equation.value.replace(" ", ""), shapes) if len(shapes) == len(tensors) else None
    if found is None:
        return None
    inputs, output, sizes = found
    found_rows = {(labels[t.batch], t.rows) for t, labels in zip(operands, inputs, strict=True) if _is_open(t)}
    shape = tuple(sizes[label] for label in output)
    label, rows = found_rows.pop() if len(found_rows) == 1 else ("", None)
    made = made_of(operands, shape, rows if label in output else None)
    return replace(made, batch=output.index(label)) if label and label in output else made


def _is_open(tensor: Tensor) -> bool:
    """Return whether a dimension of a tensor is the batch's, and not known."""
    shape = tensor.shape or ()
    return tensor.rows is not None and tensor.batch < len(shape) and shape[tensor.batch] is None


def _labelled(equation: str, shapes: list[Shape]) -> tuple[list[str], str, dict[str, Size]] | None:
    """Return the labels of each operand and of the result, dots spelled out, and the size of each label."""
    left, _, output = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        return None
    spare = "".join(chr(code) for code in range(0x3B1, 0x3B1 + 8))  # letters that no equation has
    dotted = [len(s) - len(p) + 3 for p, s in zip(inputs, shapes, strict=True) if "..." in p]
    covered = spare[: max(0, *dotted, 0)]
    sizes: dict[str, Size] = {}
    spelled: list[str] = []
    for part, shape in zip(inputs, shapes, strict=True):
        own = max(0, len(shape) - len(part.replace("...", "")))
        labels = part.replace("...", covered[len(covered) - own :] if own else "")
        if len(labels) != len(shape) or "." in labels:
            return None
        spelled.append(labels)
        for label, size in zip(labels, shape, strict=True):
            known = sizes.get(label)
            sizes[label] = size if known is None or known == 1 else known
    output = output.replace("...", covered)
    return (spelled, output, sizes) if set(output) <= set(sizes) else None
