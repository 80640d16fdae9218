"""Change one size of an op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tcprobe.gemm.conv import CONV_PASSES, OUTPUT, PLACES, ConvPass, conv_operands, convolution_of, is_channels_last
from tcprobe.gemm.dimensions import gates_of, named_sizes, names_of_roles
from tcprobe.gemm.einsum import innermost, labels_of, roles_of
from tcprobe.gemm.matmul import transposes_of
from tcprobe.gemm.ops import family_of, gemms_of
from tcprobe.schema.op import OpRecord, Shape, product


def resized(record: OpRecord, dimension: str, old: int, new: int, transposed: bool = False) -> OpRecord:
    """Return the op with one dimension changed wherever it appears in its inputs and output.

    Args:
        record: a MatMul, BatchMatMul, Einsum, convolution or cuDNN recurrent op of TensorFlow, any pass.
        dimension: as `named_sizes` names it. Two dimensions with the same name and size change together. Sizes of a
            convolution are per group; the number of groups stays.
        old: its size, as `named_sizes` gives it.
        new: its new size, 1 or more. If several dimensions are contiguous together (heads x key_dim of an Einsum),
            the innermost one changes.
        transposed: whether the layer is a transposed convolution.

    Raises:
        ValueError: the op is none of these, has no such dimension of that size, or `new` does not fit.
    """
    if (dimension, old) not in named_sizes(record, transposed) or new < 1:
        raise ValueError(f"{record.op_type}: no {dimension}={old} to change to {new}")
    family = family_of(record.op_type)
    if family == "matmul":
        return _matmul(record, dimension, old, new)
    if family == "einsum":
        return _einsum(record, old, new)
    if family == "rnn":
        return _rnn(record, dimension, old, new)
    if family in CONV_PASSES:
        return _conv(record, CONV_PASSES[family], names_of_roles(record, transposed), (dimension, new))
    raise ValueError(f"{record.op_type}: its sizes cannot be changed")


def _matmul(record: OpRecord, dimension: str, old: int, new: int) -> OpRecord:
    a, b = record.shape(0) or (), record.shape(1) or ()
    transposes = transposes_of(record, a, b) or (False, False)
    names = names_of_roles(record, False)
    found = [c for gemm in gemms_of(record) for c in gemm.contiguous if names.get(c.role) == dimension]
    values = {c.role: new * gates_of(record, c.role) for c in found if c.size == old * gates_of(record, c.role)}
    left = ("k", "m") if transposes[0] else ("m", "k")
    right = ("n", "k") if transposes[1] else ("k", "n")
    inputs: list[Shape | None] = [_ends(a, left, values), _ends(b, right, values)]
    # A fused op also has the bias as an input.
    wide = old * gates_of(record, "n")
    fits: dict[Shape, Shape] = {(wide,): (values["n"],)} if "n" in values else {}
    inputs += [s if s is None else fits.get(s, s) for s in record.input_shapes[2:]]
    return _with(record, inputs, _ends(record.output_shape, ("m", "n"), values))


def _ends(shape: Shape | None, roles: tuple[str, str], values: Mapping[str, int]) -> Shape | None:
    if shape is None or len(shape) < 2:
        return shape
    return (*shape[:-2], *(values.get(role, size) for role, size in zip(roles, shape[-2:], strict=True)))


def _einsum(record: OpRecord, old: int, new: int) -> OpRecord:
    labels = labels_of(record)
    if labels is None:
        raise ValueError(f"{record.op_type}: its equation is not known")
    shapes = (record.shape(0), record.shape(1), record.output_shape)
    roles, values = roles_of(labels), {}
    for text, shape in zip(labels, shapes, strict=True):
        run = innermost(text, roles) if text else ""
        sizes = shape[len(text) - len(run) :] if shape is not None else ()
        if not run or roles.get(run[-1]) not in ("m", "n", "k") or product(sizes) != old or not sizes:
            continue
        outer = product(sizes[:-1]) or 1
        if new % outer:
            raise ValueError(f"{record.op_type}: {new} is no multiple of the {outer} around it")
        values[run[-1]] = (sizes[-1], new // outer)
    changed = [_relabelled(shape, text, values) for shape, text in zip(shapes, labels, strict=True)]
    return _with(record, changed[:2], changed[2])


def _relabelled(shape: Shape | None, labels: str, values: Mapping[str, tuple[int | None, int]]) -> Shape | None:
    """Replace sizes by label; a broadcast dimension stays as it is."""
    if shape is None:
        return None
    pairs = [values.get(label, (None, 0)) for label in labels]
    return tuple(
        new if old is not None and size == old else size for size, (old, new) in zip(shape, pairs, strict=True)
    )


def _conv(record: OpRecord, kind: ConvPass, names: Mapping[str, str], change: tuple[str, int]) -> OpRecord:
    known, (image, kernel, result) = convolution_of(record, kind), conv_operands(record, kind)
    if known is None or kernel is None or known.groups is None:
        raise ValueError(f"{record.op_type}: its layout is not known")
    role = next(role for role, name in names.items() if name == change[0])
    last, whole = is_channels_last(record, image, kernel, result), change[1] * known.groups
    where = -1 if last else 1
    places = PLACES[kind]
    if role == "channels":
        new = {places[0]: _put(image, where, whole), places[1]: _put(kernel, -2, change[1])}
    else:
        new = {places[2]: _put(result, where, whole), places[1]: _put(kernel, -1, whole)}
    bias = range(2, len(record.input_shapes)) if kind == "forward" and role == "filters" else ()
    new |= {index: (whole,) for index in bias if record.shape(index) == (known.filters,)}
    inputs = [new.get(index, shape) for index, shape in enumerate(record.input_shapes)]
    return _with(record, inputs, new.get(OUTPUT, record.output_shape))


def _put(shape: Shape | None, index: int, size: int) -> Shape | None:
    if shape is None:
        return None
    sizes = list(shape)
    sizes[index] = size
    return tuple(sizes)


def _rnn(record: OpRecord, dimension: str, old: int, new: int) -> OpRecord:
    """Replace the inputs in input 0 and the gradient op's output, the units in everything else of three dimensions.

    cuDNN keeps all weights in one vector, TensorFlow's input 3, whose length is unknown afterwards.
    """
    of_inputs = dimension == "inputs"
    inputs = [
        _wide(shape, old, new) if (index == 0) == of_inputs else shape
        for index, shape in enumerate(record.input_shapes)
    ]
    inputs[3:4] = [None] * len(inputs[3:4])
    of_output = ("Backprop" in record.op_type) == of_inputs
    return _with(record, inputs, _wide(record.output_shape, old, new) if of_output else record.output_shape)


def _wide(shape: Shape | None, old: int, new: int) -> Shape | None:
    return (*shape[:-1], new) if shape is not None and len(shape) == 3 and shape[-1] == old else shape


def _with(record: OpRecord, inputs: Sequence[Shape | None], output: Shape | None) -> OpRecord:
    return replace(record, input_shapes=tuple(inputs), output_shape=output)
