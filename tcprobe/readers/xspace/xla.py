"""Look up XLA's instructions in the HLO modules of an XSpace: the framework's name, type, shapes and dtypes.

Of a command buffer it is told which instruction launched a kernel: XLA runs many as one CUDA graph, and names only
that. XLA names a kernel that it compiles after its instruction (``fusion.86``: ``fusion_86``). Other kernels, those of
libraries and those that equal fusions share, are told by what they depend on: an instruction runs after those whose
results it takes and before those that take its own. Nothing else is certain: a graph may run in another order than the
module lists (openxla/xla, xla/backends/gpu/runtime, command_buffer_cmd).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate, groupby, pairwise
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.readers.arrays import Ints, combine
from tcprobe.readers.protobuf import BYTES, Buffer, Span, entries, fields, text
from tcprobe.readers.xspace.gpu import DeviceEvents, OpKey
from tcprobe.readers.xspace.text import parse_shapes, program_id, split_op
from tcprobe.readers.xspace.wire import BLOB, Plane, read_stat, string_map
from tcprobe.schema.columns import Value

if TYPE_CHECKING:
    from tcprobe.readers.hlo.module import Instruction, Module

METADATA_PLANE: Final = "/host:metadata"
HLO_STAT: Final = "Hlo Proto"


def read_modules(data: Buffer, planes: Sequence[Plane], programs: set[int]) -> dict[int, Module]:
    """Return the HLO modules of a file by program id; only those that its events name, or all where none does.

    Raises:
        DamagedError: a module is no HloProto.
    """
    found: dict[int, tuple[str, Span]] = {}
    for plane in planes:
        if plane.name == METADATA_PLANE:
            stats = string_map(data, plane.stat_metadata)
            for key, span in entries(data, plane.event_metadata):
                name, proto = _module_span(data, span, stats)
                if proto is not None:
                    number = program_id(name)
                    found[key if number is None else number] = (name, proto)
    if not found:
        return {}
    from tcprobe.readers.hlo.module import read_module

    wanted = programs & found.keys() or found.keys()
    return {key: read_module(found[key][0], data, found[key][1]) for key in sorted(wanted)}


def _module_span(data: Buffer, span: Span, stats: dict[int, str]) -> tuple[str, Span | None]:
    """Return the name of an event metadata and where its HloProto lies."""
    name, proto = "", None
    for number, wire, first, last in fields(data, span):
        if wire != BYTES:
            continue
        if number == 2:
            name = text(data, (first, last))
        elif number == 5:
            proto = _blob(data, (first, last), stats) or proto
    return name, proto


def _blob(data: Buffer, span: Span, stats: dict[int, str]) -> Span | None:
    """Return where the bytes of an ``Hlo Proto`` stat lie."""
    stat = read_stat(data, span)
    is_proto = stat.kind == BLOB and stats.get(stat.id, "").lower() == HLO_STAT.lower()
    return (stat.value, stat.value + stat.size) if is_proto else None


def graph_rows(modules: dict[int, Module]) -> Iterator[dict[str, Value]]:
    """Yield the rows of `graph_ops`: every dot and convolution that a module executes."""
    if not modules:
        return
    from tcprobe.readers.hlo.gemms import executed_instructions, gemms_of, graph_row

    for module in modules.values():
        for executed in executed_instructions(module):
            for gemm in gemms_of(module, executed.instruction):
                yield graph_row(module, gemm, executed)


class Named:
    """The modules of a file, by program id and by name."""

    def __init__(self, modules: dict[int, Module]) -> None:
        self.modules = modules
        self._by_name: dict[str, list[Module]] = {}
        for module in modules.values():
            for name in {module.name, module.name.rpartition("(")[0]}:
                self._by_name.setdefault(name, []).append(module)

    def of(self, key: OpKey) -> Module | None:
        """Return the module by program id, which older writers leave out, else by name where only one has it."""
        if key.program is not None:
            return self.modules.get(key.program)
        named = self._by_name.get(key.module, []) if key.module is not None else []
        return named[0] if len(named) == 1 else None


class OpResolver(Struct):
    """Turns what events say of their op into rows of `op_details`, each row once."""

    rows: list[dict[str, Value]] = field(default_factory=list)  # the rows so far
    _index: dict[tuple[Value, ...], int] = field(default_factory=dict)
    _named: Named | None = None

    def op_id(self, key: OpKey, modules: dict[int, Module]) -> int:
        """Return the row of an op, -1 where the event names none."""
        if self._named is None or self._named.modules is not modules:
            self._named = Named(modules)
        row = resolve(key, self._named)
        if row is None:
            return -1
        values = tuple(row.values())
        if values not in self._index:
            self._index[values] = len(self.rows)
            self.rows.append(row)
        return self._index[values]


def resolve(key: OpKey, modules: Named) -> dict[str, Value] | None:
    """Return the row of `op_details` for what an event says of its op; None where it says nothing.

    The HLO instruction is the last of the stack in `hlo_op`. Without its module the annotation's own name counts
    (prefix and name, as XLA splits the framework's path).
    """
    if key.hlo_op:
        name = key.hlo_op.rpartition("::")[2]
        module = modules.of(key)
        instruction = module.by_name.get(name) if module else None
        if module and instruction:
            return _instruction_row(module, instruction)
        return _bare_hlo(key, name, module)
    if not key.annotation:
        return None
    op, kind = split_op(key.annotation)
    if not op:
        return None
    dtype, shapes = parse_shapes(key.shape) if key.shape else (None, None)
    return _row(op=op, op_type=kind, dtype=dtype, input_shapes=shapes)


def _instruction_row(module: Module, instruction: Instruction) -> dict[str, Value]:
    from tcprobe.readers.hlo.gemms import op_row

    return op_row(module, instruction)


def _bare_hlo(key: OpKey, name: str, module: Module | None) -> dict[str, Value]:
    path = "/".join(part for part in (key.prefix, key.name) if part) if key.name else name
    known = key.module if key.program is None or key.module is None else f"{key.module}({key.program})"
    return _row(op=path, hlo_op=name, hlo_module=module.name if module else known)


def _row(**known: Value) -> dict[str, Value]:
    empty: dict[str, Value] = dict.fromkeys(
        ("op", "op_type", "hlo_op", "hlo_module", "dtype", "input_shapes", "output_shape", "output_dtype")
    )
    return {**empty, **known}


def hlo_host_op(name: str, program: int, modules: dict[int, Module]) -> tuple[str, str]:
    """Return path and type of an HLO instruction that ran on the CPU."""
    module = modules.get(program)
    instruction = module.by_name.get(name) if module else None
    if module is None or instruction is None:
        return name, name.rpartition(".")[0] or name
    row = _instruction_row(module, instruction)
    return str(row["op"]), str(row["op_type"])


BUFFER: Final = re.compile(r"command_buffer(?:[_.]\w+)?")
LAUNCHES_NOTHING: Final = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
COMPILED: Final = re.compile(r"(?:\w*_)?fusion[_\d]*|wrapped_\w+")  # as XLA names its kernels
SHARED: Final = 1.5  # times as many launches as the others: equal fusions share one kernel
MOST_BEGINNINGS: Final = 16  # places where an execution may begin, before nothing is said


class _Launch(NamedTuple):
    """What an event tells of a kernel."""

    name: str | None  # instruction that the event or the kernel's name tells; None where neither does
    library: bool  # no kernel that XLA compiled
    foreign: bool  # one that XLA compiled for no instruction of this module


class _Run(NamedTuple):
    """Launches in a row, of one instruction that is not known."""

    start: int
    end: int
    library: bool


class _Order(NamedTuple):
    """What of a module tells in which order instructions run; a set of instructions is an integer of bits."""

    kernels: dict[str, str]  # name of a kernel -> instruction that XLA compiled to it
    bits: dict[str, int]  # instruction that may launch something -> its bit
    library: dict[str, bool]  # whether it calls a library
    before: dict[str, int]  # those that it depends on, directly or not
    after: dict[str, int]  # those that depend on it


def resolve_graphs(events: DeviceEvents, modules: dict[int, Module]) -> DeviceEvents:
    """Return the kernels of a GPU with their instruction in place of the command buffer, where that is certain."""
    buffers = [at for at, key in enumerate(events.ops) if key.hlo_op and BUFFER.fullmatch(key.hlo_op)]
    programs = {number for at in buffers if (number := events.ops[at].program) is not None and number in modules}
    op, ops = events.op.copy(), list(events.ops)
    for program in sorted(programs):
        mine = [at for at, key in enumerate(events.ops) if key.program == program]
        rows = np.flatnonzero(np.isin(op, mine))
        rows = rows[np.lexsort((rows, events.start_ns[rows]))]
        names, instruction = _instructions(events, rows, _order(modules[program]))
        changed = np.isin(op[rows], buffers) & (instruction >= 0)
        op[rows[changed]] = instruction[changed] + len(ops)
        ops += [OpKey(program, hlo_op=name, module=events.ops[mine[0]].module) for name in names]
    return replace(events, op=op, ops=ops)


def _order(module: Module) -> _Order:
    from tcprobe.readers.hlo.gemms import CONTROL, executed_instructions

    executed = [found.instruction for found in executed_instructions(module)]
    launching = [one for one in executed if one.opcode not in LAUNCHES_NOTHING and one.opcode not in CONTROL]
    bits = {one.name: 1 << at for at, one in enumerate(launching)}
    # by id: a computation lists operands before what takes them
    upstream: dict[int, int] = defaultdict(int)
    downstream: dict[int, int] = defaultdict(int)
    for one in executed:
        upstream[one.id] = reduce(or_, (upstream[at] for at in one.operands), bits.get(one.name, 0))
    for one in reversed(executed):
        downstream[one.id] |= bits.get(one.name, 0)
        for at in one.operands:
            downstream[at] |= downstream[one.id]
    before = {one.name: upstream[one.id] & ~bits[one.name] for one in launching}
    after = {one.name: downstream[one.id] & ~bits[one.name] for one in launching}
    library = {one.name: one.opcode == "custom-call" for one in launching}
    kernels = {re.sub(r"[^0-9A-Za-z_]", "_", name): name for name in bits if not library[name]}
    return _Order(kernels, bits, library, before, after)


def _instructions(events: DeviceEvents, rows: Ints, order: _Order) -> tuple[list[str], Ints]:
    """Return the names of instructions, and which it is of each launch of a module in the order of time, else -1."""
    code, first = combine([events.op[rows], events.name[rows]])
    kinds = _kinds(events, rows[first], np.bincount(code, minlength=len(first)), order)
    numbers = {name: at for at, name in enumerate(order.bits)}
    made = np.array([-1 if kind.name is None else numbers[kind.name] for kind in kinds])[code]
    cycle, starts = _cycle([kind.name is not None for kind in kinds], code)
    if len(starts):
        names = _agreed([kinds[at] for at in cycle.tolist()], order)
        told = np.array([-1 if name is None else numbers[name] for name in names])
        for start in (*starts.tolist(), int(starts[0]) - len(cycle), int(starts[-1]) + len(cycle)):
            here = slice(max(start, 0), max(start + len(cycle), 0))
            part = slice(max(-start, 0), max(-start, 0) + len(code[here]))
            if np.array_equal(code[here], cycle[part]):  # at the ends of a profile a part of it
                made[here] = told[part]
    return list(numbers), made


def _kinds(events: DeviceEvents, rows: Ints, counts: Ints, order: _Order) -> list[_Launch]:
    """Return what is told of each kind of launch, by one of its rows and how often it occurs."""
    kernels = [events.names[at] for at in events.name[rows].tolist()]
    stated = [(events.ops[at].hlo_op or "").rpartition("::")[2] for at in events.op[rows].tolist()]
    names = [own if own in order.bits else order.kernels.get(text) for own, text in zip(stated, kernels, strict=True)]
    total: dict[str, int] = defaultdict(int)
    for name, count in zip(names, counts.tolist(), strict=True):
        if name is not None:
            total[name] += count
    most = SHARED * float(np.median(list(total.values()))) if total else 0.0
    return [
        _Launch(
            name if own in order.bits or total[name or ""] < most else None,
            text not in order.kernels,
            text not in order.kernels and COMPILED.fullmatch(text) is not None,
        )
        for own, name, text in zip(stated, names, kernels, strict=True)
    ]


def _cycle(named: Sequence[bool], code: Ints) -> tuple[Ints, Ints]:
    """Return what recurs from one launch of some named kernel to the next, and where; empty where nothing does."""
    seen, firsts = np.unique(code, return_index=True)
    anchor = next((at for at in seen[np.argsort(firsts)].tolist() if named[at]), None)
    begins = np.flatnonzero(code == anchor) if anchor is not None else np.zeros(0, np.int64)
    slices: dict[bytes, list[int]] = defaultdict(list)
    for start, end in pairwise(begins.tolist()):
        slices[code[start:end].tobytes()].append(start)
    usual = max(slices, key=lambda key: len(slices[key]), default=b"")
    if len(slices.get(usual, ())) < 2:
        return code[:0], np.zeros(0, np.int64)
    return np.frombuffer(usual, code.dtype), np.array(slices[usual])


def _agreed(cycle: Sequence[_Launch], order: _Order) -> list[str | None]:
    """Return the instructions of what recurs, on which all places agree where an execution may begin in it.

    Only where these are all library calls of the module: else what recurs is a part of an execution, or several.
    """
    stated = [launch.name for launch in cycle]
    begins = _beginnings(stated, order)
    if len(begins) > MOST_BEGINNINGS:
        return stated
    ways = []
    for start in begins:
        names = _resolve([*cycle[start:], *cycle[:start]], order)
        ways.append(names[len(cycle) - start :] + names[: len(cycle) - start])
    agreed = [same[0] if len(set(same)) == 1 else None for same in zip(*ways, strict=True)]
    return agreed if {name for name, calls in order.library.items() if calls} <= set(agreed) else stated


def _beginnings(names: Sequence[str | None], order: _Order) -> list[int]:
    """Return the places of a cycle from which on nothing runs before what it depends on."""
    bits = [0 if name is None else order.bits[name] for name in names]
    earlier, later = _around(bits)
    possible = np.ones(len(names), np.bool_)
    for at, name in enumerate(names):
        depending = 0 if name is None else order.after[name]
        if depending & later[at + 1]:
            last = max(other for other in range(at + 1, len(bits)) if depending & bits[other])
            possible[at + 1 : last + 1] = False
        if depending & earlier[at]:
            last = max(other for other in range(at) if depending & bits[other])
            possible[: last + 1] = possible[at + 1 :] = False
    return np.flatnonzero(possible).tolist()


def _around(bits: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return for each place, and the end, the bits of all before it, and of all from it on."""
    return list(accumulate(bits, or_, initial=0)), list(accumulate(reversed(bits), or_, initial=0))[::-1]


def _resolve(execution: Sequence[_Launch], order: _Order) -> list[str | None]:
    """Return the instructions of one execution: the given ones, and those of which only one order fits.

    Just as many instructions fit as there are runs, and each depends on the one before.
    """
    made = [launch.name for launch in execution]
    runs = []
    for _, group in groupby(enumerate(execution), lambda each: each[1] if each[1].library else each[0]):
        part = list(group)
        if part[0][1].name is None and not part[0][1].foreign:
            runs.append(_Run(part[0][0], part[-1][0] + 1, part[0][1].library))
    while runs:
        alike: dict[tuple[str, ...], list[_Run]] = defaultdict(list)
        earlier, later = _around([0 if name is None else order.bits[name] for name in made])
        for run in runs:
            alike[_fitting(run, earlier[run.start], later[run.end], order)].append(run)
        certain = {
            run: name
            for names, same in alike.items()
            if len(names) == len(same) and all(order.after[a] & order.bits[b] for a, b in pairwise(names))
            for run, name in zip(same, names, strict=True)
        }
        if not certain:
            break
        for run, name in certain.items():
            made[run.start : run.end] = [name] * (run.end - run.start)
        runs = [run for run in runs if run not in certain]
    return made


def _fitting(run: _Run, earlier: int, later: int, order: _Order) -> tuple[str, ...]:
    """Return the instructions that have no launch yet and may run here, as the module lists them."""
    return tuple(
        name
        for name, bit in order.bits.items()
        if order.library[name] == run.library
        and not bit & (earlier | later)
        and not order.before[name] & later
        and not order.after[name] & earlier
    )
