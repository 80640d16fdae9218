"""Look up XLA's instructions in the HLO modules of an XSpace: the framework's name, type, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from tcprobe.readers.protobuf import BYTES, Buffer, Span, entries, fields, text
from tcprobe.readers.xspace.gpu import OpKey
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
