"""What the host did in a trace: ops and modules as ranges around launches, its time in ops, and what it waited for."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tcprobe.forest import Forest
from tcprobe.gemm.record import join_dtypes
from tcprobe.jsonfile import parse
from tcprobe.readers.arrays import Ints, combine, dense
from tcprobe.readers.host_work import KINDS, LEAST_NS, holding, overhead_work, stretches, work_code
from tcprobe.readers.kineto.columns import Part
from tcprobe.readers.nsys.names import RangeName, name_of_range
from tcprobe.schema import tables as contract
from tcprobe.schema.columns import FloatArray, Names, Table, merge_names

MODULE: Final = (
    "nn.Module: "  # of the class and a number that counts the modules of it (torch/csrc/autograd/profiler_python.cpp)
)
# What TorchScript calls a level of an op's modules: name(Class)::method; the first one is the function that was called.
_LEVEL: Final = re.compile(r"(\w+)\([^()]*\)::[^.]*\.")
_GRADIENT: Final = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$")
_NO_MODULE: Final = ("TOP", "SELF", "INSTANCE_NAME_UNKNOWN")
# What PyTorch calls the types of tensors: by C++ (c10/util/typeid.h), in old traces by the enumeration (ScalarType.h).
DTYPES: Final = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16",
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz", "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "signed char": "int8", "unsigned char": "uint8", "Char": "int8", "Byte": "uint8",
}  # fmt: skip
_OP_TEXTS: Final = ("name", "dims", "types", "strides", "concrete")
# torch/csrc/autograd/profiler_python.cpp: path below sys.path, line where the function begins, name
_FRAME: Final = re.compile(r"([^<].*\.py)\((\d{1,7})\): .+", re.DOTALL)
_NOT_THE_PROGRAM: Final = frozenset(("torch", *sys.stdlib_module_names))
_WAITS: Final = ("input", "communicate")


class Ranges(Struct):
    """Ops, annotations and modules of the host."""

    start: Ints
    end: Ints
    thread: Ints
    code: Ints  # place in `named`
    sequence: FloatArray  # number that autograd gave an op; NaN without one
    held: NDArray[np.bool_]  # whether a launch of its thread lies in it
    named: list[tuple[RangeName, str | None]]  # what they are, with `ranges.attributes`
    called_from: Names  # as `ranges` has it
    mislabelled: int  # ops whose module TorchScript told and which is not believed

    def flags(self, kind: str) -> NDArray[np.bool_]:
        """Say which are of a kind."""
        return np.array([told.kind == kind for told, _ in self.named], np.bool_)[self.code]

    def table(self) -> Table:
        """Return `ranges`: those that hold a launch, and the steps."""
        kept = np.flatnonzero(self.held | self.flags("step"))
        kept = kept[np.argsort(self.start[kept], kind="stable")]
        code = self.code[kept]
        told = [one for one, _ in self.named]
        names = ("name", "kind", "op_type", "dtype", "input_shapes")
        columns: dict[str, Any] = {c: Names.of([getattr(one, c) for one in told]).take(code) for c in names}
        return Table(
            contract.RANGES,
            {
                **columns,
                "attributes": Names.of([attributes for _, attributes in self.named]).take(code),
                "called_from": self.called_from.take(kept),
                "thread": self.thread[kept],
                "start_ns": self.start[kept],
                "duration_ns": self.end[kept] - self.start[kept],
                "step": np.array([np.nan if one.step is None else one.step for one in told])[code],
                "sequence": self.sequence[kept],
            },
        )


def ranges_of(parts: dict[str, Part], launching: Part) -> Ranges:
    """Return the ranges of a trace.

    Args:
        parts: its events.
        launching: the calls that launched something.
    """
    ops, frames = parts["ops"], parts["frames"]
    modules = frames.take(frames.texts["name"].each(lambda name: name.startswith(MODULE), False))
    texts = [ops.texts[name] for name in _OP_TEXTS]
    alike, first = combine([names.ids for names in texts])
    named = [_op(*row) for row in zip(*(names.take(first).tolist() for names in texts), strict=True)]
    scripted = ops.texts["modules"].map(layer_of)
    labelled, late = scripted.ids >= 0, _after_gradients(ops)
    inside = _outermost(ops, scripted, np.flatnonzero(labelled & ~late))
    layers = merge_names([modules.texts["name"].map(lambda name: name.removeprefix(MODULE)), scripted.take(inside)])
    code = np.concatenate([layers.ids.astype(np.int64) + len(named), alike])
    named += [(RangeName(name, "layer"), None) for name in layers.names]
    around = (modules, ops.take(inside), ops)  # an op is within the module that TorchScript names, and as long
    start, end, thread = (
        np.concatenate([getattr(part, column) for part in around]) for column in ("start", "end", "thread")
    )
    sequence = np.append(np.full(len(layers.ids), np.nan), ops.numbers["sequence"])
    held = holding(start, end, thread, launching.start, launching.thread)
    called_from = _called_from(start, thread, held, frames)
    if not frames.rows:
        lines = ops.texts["stack"].map(_innermost)
        called_from = Names(np.where(held, np.append(np.full(len(layers.ids), -1), lines.ids), -1), lines.names)
    return Ranges(start, end, thread, code, sequence, held, named, called_from, int((labelled & late).sum()))


def layer_of(modules: str) -> str | None:
    """Return the layer that an op of TorchScript is in, as `named_modules` names it; None where it is in none.

    ``TOP(Net)::forward.blocks(Sequential)::forward.0(Block)::forward.`` -> ``blocks/0``.
    """
    names = [name for name in _LEVEL.findall(modules.strip('"') + ".") if name not in _NO_MODULE]
    return "/".join(names) or None


def _outermost(ops: Part, modules: Names, rows: Ints) -> Ints:
    """Return those of some ops that no other op of the same module is around."""
    kept, until = [], dict[tuple[int, int], int]()
    ordered = rows[np.lexsort((-ops.end[rows], ops.start[rows]))]
    ends, threads, labels = (column[ordered].tolist() for column in (ops.end, ops.thread, modules.ids))
    for row, end, *place in zip(ordered.tolist(), ends, threads, labels, strict=True):
        if end > until.get((place[0], place[1]), -1):
            until[place[0], place[1]] = end
            kept.append(row)
    return np.array(kept, np.int64)


def _after_gradients(ops: Part) -> NDArray[np.bool_]:
    """Say which ops began after a gradient on their thread: from there on PyTorch names modules that did not run.

    Seen with 2.13.0 on the CPU, where one thread runs both passes: in a second step `first` is called `blocks/0/fc`.
    Where autograd has a thread of its own, as for every GPU, the names stay right.
    """
    gradient = ops.texts["name"].each(lambda name: _GRADIENT.search(name) is not None, False).astype(bool)
    first = np.full(int(ops.thread.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, ops.thread[gradient], ops.start[gradient])
    late: NDArray[np.bool_] = ops.start >= first[ops.thread]
    return late


def _called_from(start: Ints, thread: Ints, held: NDArray[np.bool_], frames: Part) -> Names:
    """Return where the innermost function of the program around each range begins; of ranges around launches alone."""
    lines = frames.texts["name"].map(line_of)
    mine = np.flatnonzero(lines.ids >= 0)
    mine = mine[np.lexsort((-frames.end[mine], frames.start[mine]))]
    rows = np.flatnonzero(held)
    rows = rows[np.lexsort((start[rows], thread[rows]))]
    place = np.full(len(start), -1, np.int32)
    for one in dense(thread[rows])[1].tolist():
        of_thread, inside = rows[thread[rows] == one], mine[frames.thread[mine] == one]
        first, last = (np.searchsorted(start[of_thread], bound[inside]) for bound in (frames.start, frames.end))
        code, ids = np.full(len(of_thread), -1, np.int32), lines.ids[inside]
        for at in np.flatnonzero(last > first).tolist():  # an inner function comes after the one around it
            code[first[at] : last[at]] = ids[at]
        place[of_thread] = code
    return Names(place, lines.names)


def _innermost(stack: str) -> str | None:
    """Return the line of the program in a stack as PyTorch wrote it to 1.12: ``file(line): function;...``, from within.

    It is the line that runs, where frames that are events of their own tell where a function begins.
    """
    return next(filter(None, map(line_of, stack.strip('"').split(";"))), None)


def line_of(frame: str) -> str | None:
    """Return file:line of a function of the program; None of PyTorch, of Python's own modules and of built-in ones."""
    match = _FRAME.fullmatch(frame)
    if match is None:
        return None
    path = match[1].replace("\\", "/")
    inside = re.sub(r".*/(?:site-packages|dist-packages|lib/python[\d.]+)/", "", path)
    top = inside.split("/")[0].removesuffix(".py")
    return None if top in _NOT_THE_PROGRAM else f"{match[1]}:{match[2]}"


def _op(
    name: str | None, dims: str | None, types: str | None, strides: str | None, concrete: str | None
) -> tuple[RangeName, str | None]:
    """Return what an op or annotation is, by its name, the sizes of its inputs and their types; and its attributes."""
    told = name_of_range(None, name or "")
    if told.kind != "op":
        return told, None
    sizes = [shape if _is_shape(shape) else None for shape in _items(dims)]
    dtypes = [DTYPES.get(one) for one in _items(types) if isinstance(one, str)]
    lies, given = ([*filter(_is_shape, _items(strides))], [one for one in _items(concrete) if isinstance(one, str)])
    attributes: dict[str, Any] = {}
    if any(lies) and len(lies) == len(sizes):
        attributes["input_strides"] = lies
    if any(given):
        attributes["arguments"] = given
    told = replace(told, input_shapes=json.dumps(sizes) if any(sizes) else None, dtype=join_dtypes(dtypes))
    return told, json.dumps(attributes) if attributes else None


def _items(text: str | None) -> list[Any]:
    try:
        value = parse(text) if text else None
    except ValueError:  # deeper or longer than anything that PyTorch writes
        return []
    return value if isinstance(value, list) else []


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(size, int) and size >= 0 for size in value)


def host_ops(ranges: Ranges) -> Table:
    """Return `host_ops`: of each op the time of the host in it and in no op that it calls."""
    rows = np.flatnonzero(ranges.flags("op") & (ranges.end > ranges.start))
    rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows], ranges.thread[rows]))]
    spent = ranges.end[rows] - ranges.start[rows]
    bounds = np.flatnonzero(np.diff(ranges.thread[rows])) + 1
    for place in np.split(np.arange(len(rows)), bounds):
        parent = Forest.of(ranges.start[rows[place]], ranges.end[rows[place]]).parent
        inner = np.bincount(parent[parent >= 0], (ranges.end - ranges.start)[rows[place]][parent >= 0], len(place))
        spent[place] -= np.minimum(inner, spent[place]).astype(np.int64)
    names = Names.of([told.name for told, _ in ranges.named]).take(ranges.code[rows])
    codes, used = dense(names.ids)
    least, most = np.full(len(used), np.iinfo(np.int64).max), np.zeros(len(used), np.int64)
    np.minimum.at(least, codes, spent)
    np.maximum.at(most, codes, spent)
    named = Names.of([names.names[number] for number in used.tolist()])
    columns = {"op": named, "op_type": named, "calls": np.bincount(codes, minlength=len(used))}
    total = np.bincount(codes, spent, len(used)).astype(np.int64)
    return Table(contract.HOST_OPS, {**columns, "sum_ns": total, "min_ns": least, "max_ns": most})


def host_events(parts: dict[str, Part], ran: Part, ranges: Ranges) -> Table:
    """Return what the host did while a GPU ran no kernel.

    That is long calls of CUDA, ranges that wait, the profiler's cost, and functions of Python on threads that launch:
    those that last for half of a stretch without a kernel, of which the innermost tells more than what it calls.
    """
    device, spent = ran.numbers["device"], ran.end - ran.start
    mine = [device == one for one in np.unique(device)]
    idle = stretches([(ran.start[one], spent[one]) for one in mine])
    rows: list[tuple[Ints, ...]] = []
    names: list[Names] = []

    def add(of: Part | Ranges, called: Names, works: Sequence[int]) -> None:
        work = np.array([*works, -1], np.int64)[called.ids]
        kept = np.flatnonzero((work >= 0) & (of.end - of.start >= LEAST_NS))
        kept = kept[idle.meet(of.start[kept], of.end[kept])]
        rows.append((of.thread[kept], of.start[kept], of.end[kept], work[kept]))
        names.append(called.take(kept))

    calls, overheads = parts["calls"], parts["overheads"]
    add(calls, calls.texts["name"], [*map(work_code, calls.texts["name"].names)])
    told = [one for one, _ in ranges.named]
    add(ranges, Names(ranges.code, [one.name for one in told]), [*map(_range_code, told)])
    costs = [overhead_work(name) for name in overheads.texts["name"].names]
    add(overheads, overheads.texts["name"], [-1 if cost is None else KINDS.index(cost) for cost in costs])
    frames = parts["frames"]
    kept = np.flatnonzero(np.isin(frames.thread, calls.thread) & idle.explained(frames.start, frames.end))
    rows.append((frames.thread[kept], frames.start[kept], frames.end[kept], np.full(len(kept), KINDS.index("python"))))
    names.append(frames.texts["name"].take(kept))
    thread, start, end, work = (np.concatenate(column) for column in zip(*rows, strict=True))
    columns = {"thread": thread, "start_ns": start, "duration_ns": end - start, "name": merge_names(names)}
    return Table(contract.HOST_EVENTS, {**columns, "work": Names(work, KINDS)})


def _range_code(told: RangeName) -> int:
    """Return the place in `KINDS` of what a range tells; -1 of steps, layers, and ops that are no wait."""
    if told.kind in ("step", "layer"):
        return -1
    code = KINDS.index("input") if (told.kind, told.name) == ("phase", "input") else work_code(told.name)
    if code >= 0 and KINDS[code] in _WAITS:
        return code
    return -1 if told.kind == "op" else KINDS.index("range")
