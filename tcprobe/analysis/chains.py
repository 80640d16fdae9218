"""Find chains: kernels that multiply nothing and follow one another on a stream, with nothing else between them.

Such kernels are bound by memory or by launching, and a compiler could make one of several. What that saves is bounded:
by all of their time, and where shapes and the GPU's bandwidth are known by what the one kernel must still read and
write, which is what the first one reads and the last one writes.

What kernels that multiply nothing must read and write, by the shapes of their ops.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.context import identified
from tcprobe.analysis.host import processes_of
from tcprobe.analysis.kernels.details import details_of
from tcprobe.analysis.kernels.kinds import kind_of
from tcprobe.analysis.kernels.launches import Launched, LaunchGroups
from tcprobe.gemm.record import bytes_of, parse_json_shapes, parse_shape
from tcprobe.grouping import Codes, distinct_numbers, distinct_rows, rows_by_group, sum_by
from tcprobe.hardware import Gpu
from tcprobe.schema.columns import FloatArray, IntArray, Row, Table
from tcprobe.schema.kinds import KernelKind, KernelLibrary
from tcprobe.schema.op import Shape, product
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.tables import CHAINS

_PARTLY: Final = re.compile(r"(?i)slice|gather|scatter|index|embedding|split|unstack|unbind|chunk|pad")
"""Ops, or parts of compiled ones, that read a part of what they are given, or write one of several results."""
_OTHER_TYPE: Final = re.compile(
    r"(?i)cast|convert|_?to(?:_copy)?_?|copy_?|clone|(?:not_?)?equal|greater\w*|less\w*|logical\w*|is_?(?:finite|nan|inf)"
    r"|[gl][te]_?|eq_?|ne_?|where|select\w*|bitwise\w*|arg_?m(?:ax|in)"
)
"""Types of ops whose result may be of another type than what they read."""
_PRECISIONS: Final = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


class Moved(NamedTuple):
    """Bytes that one execution of an op must read and write at least, where nothing stays in a cache."""

    read: float
    written: float


def moved_by(op: Row, kind: KernelKind, kernel: str, precision: str | None) -> Moved | None:
    """Return what an op must read and write; None where its shapes or types do not tell all of it.

    An element of a result reads one element of each operand: what is larger (a view, a slice) is not read whole. Only
    reductions, normalisations, softmax and compiled fusions read more than they write.

    Args:
        op: of `op_details`.
        kind: what its kernel does.
        kernel: name of it.
        precision: of its operands, by the kernel, where the op has no dtype.
    """
    kind_of_op = str(op["op_type"] or "").rpartition("::")[2]
    if _PARTLY.search(kind_of_op) or (kind == "fusion" and _PARTLY.search(kernel)):
        return None
    dtype = text_of(op["dtype"])
    width = bytes_of(dtype) if dtype else _PRECISIONS.get(precision or "")
    shapes = parse_json_shapes(_text(op, "input_shapes"))
    inputs = [_elements(shape) for shape in shapes]
    result = _result(parse_shape(_text(op, "output_shape")), shapes, kind)
    if width is None or not inputs or None in inputs or result is None:
        return None
    wide = bytes_of(_text(op, "output_dtype")) if op["output_dtype"] else None
    if wide is None and (op["hlo_op"] is not None or _OTHER_TYPE.fullmatch(kind_of_op) or kind == "copy"):
        return None
    whole = kind in ("reduction", "normalisation", "softmax", "fusion")
    read = sum(size if whole else min(size, result) for size in inputs if size is not None)
    return Moved(float(width * read), float((wide or width) * result))


def _result(output: Shape | None, inputs: tuple[Shape | None, ...], kind: KernelKind) -> int | None:
    """Return the elements of a result: where its shape is not recorded, of what has the shape of its operands."""
    if output is not None:
        return product(output)
    known = [shape for shape in inputs if shape is not None]
    if len(known) < len(inputs) or not known:
        return None
    if kind in ("normalisation", "softmax"):
        sizes = [_elements(shape) for shape in known]
        return None if None in sizes else max(size or 0 for size in sizes)
    if kind != "elementwise":
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    if any(size is None for shape in padded for size in shape):
        return None
    return product(max(size or 0 for size in sizes) for sizes in zip(*padded, strict=True))


def _elements(shape: Shape | None) -> int | None:
    return None if shape is None else product(shape)


def _text(op: Row, column: str) -> str | None:
    return text_of(op[column])


FUSIBLE: Final[frozenset[KernelKind]] = frozenset(
    {"elementwise", "normalisation", "reduction", "softmax", "copy", "random", "fusion"}
)
"""Kinds of kernels that compilers fuse with one another."""
COMPILED: Final[frozenset[KernelLibrary | None]] = frozenset({"xla", "triton", "tensorrt"})
"""Whose kernels are what a compiler left after it fused."""
_OF_PRODUCTS: Final[frozenset[KernelLibrary | None]] = frozenset({"cudnn", "cublas", "cutlass"})
"""Libraries that copy for a product of theirs alone."""
_APART: Final = re.compile(r"(?i)\bn[cdhw]+(?:_?to_?)n[cdhw]+|^__amd_rocclr")
"""Copies that no compiler of models fuses: cuDNN's changes of layout around a convolution, those of AMD's runtime."""
NO_CHAINS: Final = "no kernels that a compiler could make one follow one another"


class _Kernels(NamedTuple):
    """The kernels of a run, by their place among the names of its groups."""

    kinds: Sequence[KernelKind]
    compiled: NDArray[np.bool_]
    fusible: NDArray[np.bool_]
    precisions: Sequence[str | None]


class _Chains(NamedTuple):
    """All chains of a run; rows of launches in the order in which they ran, chain after chain."""

    rows: IntArray
    of_row: Codes  # chain of each
    first: IntArray  # place of each chain's first launch among `rows`
    length: IntArray  # launches of each


def build_chains(profile: Profile, launched: Launched | None) -> Table | None:
    """Return the table `chains`, costliest first; None where there is none.

    Args:
        profile: with `kernels` and `ops`.
        launched: launches with their class; None where the source has sums only.
    """
    if launched is None or "serialises_kernels" in profile.traits:
        return None
    groups = launched.groups
    kernels = _kernels(profile, groups)
    chains = _chains(profile, groups, kernels)
    if not len(chains.first):
        return None
    return Table.from_rows(CHAINS, list(_rows(profile, groups, kernels, chains)))


def _kernels(profile: Profile, groups: LaunchGroups) -> _Kernels:
    table = profile.require("kernels")
    told: dict[Any, Any] = dict(zip(table.values("kernel"), table.values("kind"), strict=True))
    precisions: dict[Any, Any] = dict(zip(table.values("kernel"), table.values("precision"), strict=True))
    kinds: list[KernelKind] = [told.get(name) or kind_of(name) for name in groups.names]
    libraries = [details_of(name).library for name in groups.names]
    each = [*zip(kinds, libraries, strict=True)]
    return _Kernels(
        kinds,
        np.array([kind == "fusion" or library in COMPILED for kind, library in each], np.bool_),
        np.array([_fusible(name, *one) for name, one in zip(groups.names, each, strict=True)], np.bool_),
        [precisions.get(name) for name in groups.names],
    )


def _fusible(name: str, kind: KernelKind, library: KernelLibrary | None) -> bool:
    return kind in FUSIBLE and not (kind == "copy" and (library in _OF_PRODUCTS or _APART.search(name)))


def _chains(profile: Profile, groups: LaunchGroups, kernels: _Kernels) -> _Chains:
    """Return the launches that are of a chain of two or more."""
    launches, group = groups.launches, groups.of_launch
    member = groups.counted & kernels.fusible[groups.kernel] & ~_of_products(profile)[groups.op]
    start, stream = launches.numbers("start_ns"), launches.numbers("stream").astype(np.int64)
    process = np.nan_to_num(processes_of(profile, launches.numbers("thread")), nan=-1.0).astype(np.int64)
    step = np.nan_to_num(launches.numbers("iteration"), nan=-1.0).astype(np.int64)
    device = launches.numbers("device").astype(np.int64)
    order = np.lexsort((np.arange(len(launches)), start, stream, process, device))
    (inside, compiled) = (flags[group[order]] for flags in (member, kernels.compiled[groups.kernel]))
    inside &= stream[order] >= 0
    follows = np.zeros(len(order), np.bool_)  # whether a launch belongs to the chain of the one before
    follows[1:] = inside[1:] & inside[:-1] & (compiled[1:] == compiled[:-1])
    copies = _copies_before(profile, device[order], stream[order], start[order])
    for values in (device[order], process[order], stream[order], step[order], copies):
        follows[1:] &= values[1:] == values[:-1]
    whole = inside & (follows | np.append(follows[1:], False))
    rows, begins = order[whole], ~follows[whole]
    first = np.flatnonzero(begins)
    of_row = (np.cumsum(begins, dtype=np.int32) - 1).astype(np.int32)
    return _Chains(rows, of_row, first, np.diff(np.append(first, len(rows))))


def _of_products(profile: Profile) -> NDArray[np.bool_]:
    """Return which ops of `op_details` could use Tensor Cores; their kernels serve a product. The last is no op."""
    ops, details = profile.require("ops"), profile.require("op_details")
    names = zip(*(ops.values(name) for name in ("op", "op_type", "tc_capable")), strict=True)
    capable = {(op, kind) for op, kind, can in names if can == "yes"}
    pairs = zip(details.values("op"), details.values("op_type"), strict=True)
    return np.array([*(pair in capable for pair in pairs), False], np.bool_)


def _copies_before(profile: Profile, device: IntArray, stream: IntArray, start: IntArray) -> IntArray:
    """Return how many copies and sets began on a launch's GPU and stream before it."""
    memory = profile.require("memory_ops")
    count = np.zeros(len(start), np.int64)
    if not len(memory) or not len(start):
        return count
    both = (np.concatenate([mine, memory.numbers(name)]) for mine, name in ((device, "device"), (stream, "stream")))
    (devices, _), line = distinct_rows(*(values.astype(np.int64) for values in both))
    of_launch, of_copy = line[: len(start)], line[len(start) :]
    mine, copies = (rows_by_group(lines, len(devices)) for lines in (of_launch, of_copy))
    began = memory.numbers("start_ns")
    for rows, others in zip(mine, copies, strict=True):
        count[rows] = np.searchsorted(np.sort(began[others]), start[rows])
    return count


def _alike(code: IntArray, chains: _Chains) -> Codes:
    """Return for each chain the number of its sequence of kernels: those of one hash of 64 bits count as equal."""
    place = np.arange(len(chains.rows)) - chains.first[chains.of_row]
    hashes = np.add.reduceat(_mixed(code) * _mixed(place + len(code)), chains.first)
    return distinct_rows(chains.length, hashes.view(np.int64))[1]


def _mixed(values: IntArray) -> NDArray[np.uint64]:
    """Return numbers that look random (splitmix64; Steele, Lea and Flood, OOPSLA 2014)."""
    mixed = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31)) | np.uint64(1)


def _rows(profile: Profile, groups: LaunchGroups, kernels: _Kernels, chains: _Chains) -> Iterator[Row]:
    """Yield a row for each GPU and sequence of kernels."""
    group = groups.of_launch[chains.rows]
    kernel, device = groups.kernel[group], groups.device[group]
    (devices, _), row_of_chain = distinct_rows(device[chains.first], _alike(kernel, chains))
    count = len(devices)
    row = row_of_chain[chains.of_row]
    spent = groups.launches.numbers("duration_ns")[chains.rows]
    sums = sum_by(row, spent, count)
    traffic = _traffic(profile, groups, kernels, chains)
    total, steps = float(np.nansum(profile.require("kernels").numbers("sum_ns"))), profile.kernel_steps
    members = rows_by_group(row_of_chain, count)
    gpus = _gpus(profile)
    ops = _costliest_ops(profile, groups.op[group], row, spent, count)
    for at in np.lexsort((np.arange(count), -sums)).tolist():
        mine = members[at]
        place = slice(int(chains.first[mine[0]]), int(chains.first[mine[0]] + chains.length[mine[0]]))
        compiled = bool(kernels.compiled[kernel[place.start]])
        yield {
            "device": int(devices[at]),
            "kinds": _kinds([kernels.kinds[k] for k in kernel[place].tolist()]),
            "kernels": len(kernel[place]),
            "calls": len(mine),
            "launches": len(mine) * len(kernel[place]),
            "sum_ns": int(sums[at]),
            "share_pct": 100.0 * float(sums[at]) / total if total > 0 else None,
            "step_ns": float(sums[at]) / steps if steps else None,
            "first_kernel": groups.names[kernel[place.start]],
            "last_kernel": groups.names[kernel[place.stop - 1]],
            **ops[at],
            "compiled": compiled,
            **_figures(traffic.take(mine), gpus.get(int(devices[at])), compiled),
        }


def _kinds(kinds: Sequence[KernelKind]) -> str:
    """Return how many kernels of a chain are of each kind, the most frequent first, as a JSON object."""
    counts = Counter(kinds)
    return json.dumps(dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))))


def _costliest_ops(profile: Profile, op: IntArray, row: Codes, spent: IntArray, count: int) -> list[Row]:
    """Return for each row the op that takes most of its time, and where that stands; empty of rows without ops."""
    (rows, numbers), pair = distinct_rows(row, op)
    sums, details = sum_by(pair, spent, len(rows)), profile.require("op_details")
    best = np.full(count, -1, np.int64)
    for at in np.lexsort((-numbers, sums)).tolist():  # the last of each row is its costliest
        if numbers[at] >= 0:
            best[rows[at]] = numbers[at]
    names, types = details.names("op"), details.names("op_type")
    wanted = {(names[at], types[at]) for at in best.tolist() if at >= 0}
    keyed = (((one["op"], one["op_type"]), one) for one in profile.require("ops").rows())
    places: dict[Any, Row] = {key: one for key, one in keyed if key in wanted}
    return [_place(names[at], types[at], places) if at >= 0 else {} for at in best.tolist()]


def _place(op: str | None, op_type: str | None, places: Mapping[Any, Row]) -> Row:
    row = places.get((op, op_type), {})
    line = row.get("source") or row.get("called_from")
    return {"op": op, "op_type": op_type, "layer": row.get("layer"), "pass": row.get("pass"), "source": line}


class _Traffic(NamedTuple):
    """Bytes and time of chains; NaN where the shapes do not tell."""

    spent_ns: FloatArray
    moved: FloatArray  # what their ops read and write, each by itself
    read: FloatArray  # what the first op reads
    written: FloatArray  # what the last op writes

    def take(self, chains: IntArray) -> _Traffic:
        """Return those of some chains."""
        return _Traffic(*(values[chains] for values in self))


def _traffic(profile: Profile, groups: LaunchGroups, kernels: _Kernels, chains: _Chains) -> _Traffic:
    """Return what each chain moves. Kernels of one op that follow one another move what the op does, or more."""
    details, group = profile.require("op_details"), groups.of_launch[chains.rows]
    read: FloatArray = np.full(len(groups), np.nan)
    written = read.copy()
    rows: list[Row] = list(details.rows()) if len(details) else []
    for at in distinct_numbers(group).tolist():
        op, kernel = int(groups.op[at]), int(groups.kernel[at])
        if op >= 0 and rows[op]["input_shapes"] is not None:
            found = moved_by(rows[op], kernels.kinds[kernel], groups.names[kernel], kernels.precisions[kernel])
            read[at], written[at] = found or (np.nan, np.nan)
    ops, count, last = groups.op[group], len(chains.first), chains.first + chains.length - 1
    begins = np.ones(len(group), np.bool_)  # whether an op begins with a launch
    begins[1:] = (ops[1:] != ops[:-1]) | (chains.of_row[1:] != chains.of_row[:-1])
    both = np.where(begins, read[group] + written[group], 0.0)
    moved = np.bincount(chains.of_row, both, count).astype(np.float64)
    spent = sum_by(chains.of_row, groups.launches.numbers("duration_ns")[chains.rows], count)
    return _Traffic(spent.astype(np.float64), moved, read[group[chains.first]], written[group[last]])


def _figures(chains: _Traffic, gpu: Gpu | None, compiled: bool) -> Row:
    """Return what chains of one sequence move, how fast, and what one kernel in their place saves at most."""
    spent, moved = float(chains.spent_ns.sum()), float(chains.moved.sum())
    if np.isnan(moved):
        return {"at_most_ns": None if compiled else spent}
    kept = float(chains.read.sum() + chains.written.sum())
    row: Row = {"moved_bytes": moved, "again_bytes": max(0.0, moved - kept)}
    row["achieved_tb_per_s"] = moved / spent / 1e3 if spent > 0 else None
    least: FloatArray = np.zeros(len(chains.spent_ns))
    if gpu is not None:
        bandwidth, cache = gpu.bandwidth_bytes_per_s / 1e9, float(gpu.l2_bytes)
        share = 100.0 * moved / spent / bandwidth if spent > 0 else None
        row["bandwidth_pct"] = share if share is not None and share <= 100.0 else None  # else a cache served some
        least = (np.maximum(chains.read - cache, 0.0) + np.maximum(chains.written - cache, 0.0)) / bandwidth
    row["at_most_ns"] = None if compiled else float(np.maximum(chains.spent_ns - least, 0.0).sum())
    return row


def _gpus(profile: Profile) -> dict[int, Gpu]:
    """Return the GPUs of gpus.csv that ran, by ordinal."""
    rows = ((row["device"], identified(row).gpu) for row in profile.active_gpus if row["vendor"] in (None, "Nvidia"))
    return {int(device or 0): gpu for device, gpu in rows if gpu is not None}
