"""`reproduce` as a function: write a script of one op of a run, timed alone beside its padded twin."""

from __future__ import annotations

from difflib import get_close_matches
from math import prod
from typing import Any, Final

from msgspec import Struct

from tcprobe.errors import UsageError
from tcprobe.formatting import duration
from tcprobe.gemm.record import multiple_for, next_size, parse_json_shapes, parse_object, parse_shape
from tcprobe.rules.words import framework_of
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile

Shape = list[int]
TORCH: Final = ("aten::mm", "aten::addmm", "aten::bmm")
MATMULS: Final = {
    "MatMul": ("a", "b", "transpose_a", "transpose_b"),
    "BatchMatMul": ("x", "y", "adj_x", "adj_y"),
    "BatchMatMulV2": ("x", "y", "adj_x", "adj_y"),
    **dict.fromkeys(TORCH, ("mat1", "mat2", "transpose_a", "transpose_b")),
}
"""Type -> its two operands, and the attributes that transpose them, as TensorFlow calls them; of PyTorch ours."""
CONVS: Final = {
    "Conv2D": ("input", "filter"),
    "Conv2DBackpropInput": ("input_sizes", "filter", "out_backprop"),
    "Conv2DBackpropFilter": ("input", "filter_sizes", "out_backprop"),
}
OF_CONVS: Final = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
DTYPES: Final = {"half": "float16", "c10::half": "float16", "float": "float32", "c10::bfloat16": "bfloat16"}
"""PyTorch's names of dtypes -> ours; a script holds no other text of a profile as code."""


class Case(Struct, frozen=True):
    """One op with its sizes."""

    inputs: tuple[Shape, ...]  # of each input
    output: Shape


def script_of(profile: Profile, name: str) -> str:
    """Return a script that times an op of a run alone.

    Args:
        profile: analysed.
        name: the op's, or a part of it that no other op has.

    Raises:
        UsageError: there is no such op, several, or one that cannot be written: its type or shapes are not known.
    """
    row = _row(profile, name)
    torch = framework_of(profile.metadata.framework or "") == "pytorch" or str(row["op_type"]).startswith("aten::")
    op_type = str(row["op_type"])
    if op_type not in (TORCH if torch else {*MATMULS, *CONVS}.difference(TORCH)):
        known = "matrix products" if torch else "matrix products and 2D convolutions"
        raise UsageError(f"{row['op']}: a script of {op_type} is not known", f"reproduce writes {known}")
    given = parse_object(_text(row["attributes"]))
    case, dtype = _case(row), _dtype(row)
    case, more, facts = _stored(case, given) if torch else (case, given, [])
    attributes = {name: value for name, value in more.items() if name in (*MATMULS.get(op_type, ())[2:], *OF_CONVS)}
    multiple = multiple_for(dtype)
    padded = _padded(op_type, case, attributes, multiple)
    template = _TORCH if torch else _TENSORFLOW
    return template.format(
        facts=repr([*_facts(profile, row), *facts]),
        dtype=dtype,
        op_type=op_type,
        case=_literal(case),
        padded=None if padded is None else _literal(padded),
        multiple=multiple,
        attributes=repr(attributes),
        names=repr(MATMULS[op_type][:2] if op_type in MATMULS else CONVS[op_type]),
        xla=bool(profile.metadata.xla),
    )


def _row(profile: Profile, name: str) -> Row:
    """Return the record of the op in the graph, else in the profile itself: of several of one name the largest."""
    rows = [row for table in ("graph_ops", "op_details") for row in profile.require(table).rows() if row["op"]]
    found = {str(row["op"]) for row in rows if row["op"] == name}
    found = found or {str(row["op"]) for row in rows if name in str(row["op"])}
    if len(found) == 1:
        return max((row for row in rows if row["op"] in found), key=_elements)
    names = sorted({str(row["op"]) for row in rows})
    if not found:
        near = get_close_matches(name, names, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "tcprobe report RUN --by op lists the ops"
        raise UsageError(f"--op {name}: the run has no such op with shapes", hint)
    first = min(found)
    raise UsageError(f"--op {name}: {len(found):,} ops are called so, as {first}", "give more of the name")


def _elements(row: Row) -> int:
    """Return how many elements the operands have together."""
    return sum(prod(size or 0 for size in shape or ()) for shape in parse_json_shapes(_text(row["input_shapes"])))


def _case(row: Row) -> Case:
    shapes, output = parse_json_shapes(_text(row["input_shapes"])), parse_shape(_text(row["output_shape"]))
    if row["op_type"] in TORCH:  # whose scalars have no size, and whose results nobody records
        shapes = tuple(shape for shape in shapes if shape is None or len(shape))
        if output is None and len(shapes) >= 2 and all(shapes[-2:]):
            output = (*(shapes[-2] or ())[:-1], (shapes[-1] or ())[-1])
    whole = [[size for size in shape if size is not None] for shape in shapes if shape is not None]
    same = len(whole) == len(shapes) and all(
        len(one) == len(shape or ()) for one, shape in zip(whole, shapes, strict=True)
    )
    if not whole or not same or output is None or None in output:
        raise UsageError(
            f"{row['op']}: its shapes are not all known", "profile it with tcprobe profile, which records them"
        )
    return Case(tuple(whole), [size for size in output if size is not None])


def _stored(case: Case, given: dict[str, Any]) -> tuple[Case, dict[str, Any], list[str]]:
    """Return a product of PyTorch with its operands as they lie in memory, which are transposed, and what is not so."""
    strides = [one for one in given.get("input_strides") or () if one]
    if len(strides) != len(case.inputs):
        return case, {"transpose_a": False, "transpose_b": False}, ["layout: not recorded, contiguous here"]
    inputs, flipped, facts = list(case.inputs), [False, False], list[str]()
    for at in (-2, -1):
        shape, apart = inputs[at], strides[at]
        flipped[at] = apart[-2] == 1 and apart[-1] != 1
        if flipped[at]:
            shape, apart = ([*one[:-2], one[-1], one[-2]] for one in (shape, apart))
            inputs[at] = shape
        if apart != [prod(shape[place + 1 :]) for place in range(len(shape))]:
            facts.append(f"layout: strides {apart} of {shape} as recorded, contiguous here")
    return Case(tuple(inputs), case.output), dict(zip(("transpose_a", "transpose_b"), flipped, strict=True)), facts


def _dtype(row: Row) -> str:
    told = str(row["output_dtype"] or row.get("dtype")).lower()
    dtype = DTYPES.get(told, told)
    if dtype not in (*DTYPES.values(), "float64"):
        raise UsageError(f"{row['op']}: a script in {told} is not known", "reproduce writes float16 to float64")
    return dtype


def _padded(op_type: str, case: Case, attributes: dict[str, Any], multiple: int) -> Case | None:
    """Return the twin whose contiguous sizes are multiples; None where they are already, or channels are grouped."""
    if op_type in CONVS:
        twin = _padded_convolution(op_type, case, attributes, multiple)
    else:
        twin = _padded_product(op_type, case, attributes, multiple)
    return None if twin == case else twin


def _padded_product(op_type: str, case: Case, attributes: dict[str, Any], multiple: int) -> Case:
    """Round up what is innermost of an operand or the result: of M, N and K those that are."""
    *before, a, b = case.inputs
    flipped = [bool(attributes.get(name)) for name in MATMULS.get(op_type, ("", "", "", ""))[2:]]
    (m, k), n = (a[-1], a[-2]) if flipped[0] else (a[-2], a[-1]), b[-2] if flipped[1] else b[-1]
    n = next_size(n, multiple)
    m, k = (next_size(m, multiple), k) if flipped[0] else (m, next_size(k, multiple))
    k = next_size(k, multiple) if flipped[1] else k
    first = [*a[:-2], *((k, m) if flipped[0] else (m, k))]
    second = [*b[:-2], *((n, k) if flipped[1] else (k, n))]
    output = [*case.output[:-2], m, n]
    return Case((*([*one[:-1], n] for one in before), first, second), output)


def _padded_convolution(op_type: str, case: Case, attributes: dict[str, Any], multiple: int) -> Case | None:
    at = 1 if attributes.get("data_format") == "NCHW" else 3
    image, kernel, result = {
        "Conv2D": (case.inputs[0], case.inputs[1], case.output),
        "Conv2DBackpropInput": (case.output, case.inputs[1], case.inputs[-1]),
        "Conv2DBackpropFilter": (case.inputs[0], case.output, case.inputs[-1]),
    }[op_type]
    if image[at] != kernel[2]:
        return None
    channels, filters = next_size(kernel[2], multiple), next_size(kernel[3], multiple)
    image = [channels if n == at else size for n, size in enumerate(image)]
    result = [filters if n == at else size for n, size in enumerate(result)]
    kernel = [*kernel[:2], channels, filters]
    if op_type == "Conv2D":
        return Case((image, kernel), result)
    if op_type == "Conv2DBackpropInput":
        return Case((case.inputs[0], kernel, result), image)
    return Case((image, case.inputs[1], result), kernel)


def _facts(profile: Profile, row: Row) -> list[str]:
    """Return what the report says of the op, one fact a line."""
    op = next((one for one in profile.require("ops").rows() if one["op"] == row["op"]), None)
    kernels = [one for one in profile.require("kernels").rows() if one["op"] == row["op"] and one["sum_ns"]]
    facts = [f"op: {row['op']} ({row['op_type']})"]
    facts += [f"{name}: {row[name]}" for name in ("layer", "pass") if row.get(name)]
    if op is not None:
        facts += [f"line: {op['source']}"] if op["source"] else []
        blocked = op["tc_blocker_kind"] not in (None, "none")
        facts += [f"kept off the Tensor Cores by: {op['tc_blocker']}"] if blocked else []
    for one in sorted(kernels, key=lambda kernel: -int(kernel["sum_ns"] or 0))[:3]:
        each = duration(float(one["sum_ns"] or 0) / max(int(one["calls"] or 1), 1))
        facts.append(f"kernel: {one['kernel']}, {each} a launch, uses Tensor Cores: {one['uses_tc']}")
    gpus = dict.fromkeys(str(gpu["name"]) for gpu in profile.active_gpus)
    return [*facts, f"recorded on: {', '.join(gpus) or 'a CPU'}, {profile.metadata.framework or 'framework unknown'}"]


def _literal(case: Case) -> str:
    return repr((list(map(list, case.inputs)), list(case.output)))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


_HEAD: Final = '''"""One op alone. Written by tcprobe reproduce.

It times the op as the run had it beside a twin whose sizes are multiples of {multiple}.
"""

import time

import {module}

FACTS = {facts}
TYPE = "{op_type}"
DTYPE = "{dtype}"
# Shapes of the inputs and of the result.
RECORDED = {case}
PADDED = {padded}
'''
_TAIL: Final = '''

def seconds(run, wait):
    """Return the median time of a call."""
    wait(run())
    times, calls, until = [], 1, time.perf_counter() + 5
    while len(times) < 20 and (not times or time.perf_counter() < until):
        begun = time.perf_counter()
        for _ in range(calls):
            result = run()
        wait(result)
        times.append((time.perf_counter() - begun) / calls)
        if calls == 1 and times[0] < 0.1:
            times, calls = [], 10
    return sorted(times)[len(times) // 2]


for fact in FACTS:
    print(fact)
print("here:", where())
recorded = seconds(*case(*RECORDED))
print("as recorded: %.1f us" % (1e6 * recorded), *RECORDED[0], "->", RECORDED[1])
if PADDED is None:
    print("no padded twin: its sizes are multiples of {multiple} already, or its channels are in groups")
else:
    padded = seconds(*case(*PADDED))
    print("padded: %.1f us" % (1e6 * padded), *PADDED[0], "->", PADDED[1])
    print("the padded one takes %.2f times as long" % (padded / recorded))
'''
_TENSORFLOW: Final = (
    _HEAD.replace("import {module}", "import tensorflow as tf")
    + '''ATTRIBUTES = {attributes}
NAMES = {names}
XLA = {xla}  # whether XLA compiled the step


def where():
    gpus = tf.config.list_physical_devices("GPU")
    return "TensorFlow %s, %s" % (tf.__version__, "a GPU" if gpus else "no GPU: these times tell nothing of one")


def case(shapes, output):
    """Return a function that runs the op once, and one that waits for its result."""
    given = [
        tf.constant(output) if name.endswith("_sizes") else tf.cast(tf.random.normal(shape), DTYPE)
        for name, shape in zip(NAMES, shapes)
    ]

    def op(*inputs):
        return getattr(tf.raw_ops, TYPE)(**dict(zip(NAMES, inputs)), **ATTRIBUTES)

    run = tf.function(op, **({{"jit_compile": True}} if XLA else {{}}))
    return (lambda: run(*given)), (lambda result: tf.reshape(result, [-1])[:1].numpy())
'''
    + _TAIL
)
_TORCH: Final = (
    _HEAD.replace("import {module}", "import torch")
    + '''# Whether an operand lies transposed in memory.
ATTRIBUTES = {attributes}


def where():
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU: these times tell nothing of one"
    return "PyTorch %s, %s" % (torch.__version__, name)


def case(shapes, output):
    """Return a function that runs the op once, and one that waits for its result."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given = [torch.randn(shape, device=device).to(getattr(torch, DTYPE)) for shape in shapes]
    for at, flipped in ((-2, ATTRIBUTES["transpose_a"]), (-1, ATTRIBUTES["transpose_b"])):
        given[at] = given[at].transpose(-2, -1) if flipped else given[at]
    op = getattr(torch, TYPE.split("::")[1])
    return (lambda: op(*given)), (lambda result: torch.cuda.synchronize() if device == "cuda" else None)
'''
    + _TAIL
)
