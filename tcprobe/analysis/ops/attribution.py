"""Find the layer, pass and source line of each op of a profile, by the graph that the probe recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.ops.paths import (
    NOTHING_KNOWN,
    KnownScopes,
    RecordedScopes,
    Scopes,
    layer_of,
    model_scopes,
    parse_path,
    pass_of_path,
    plain_path,
    scope_of,
)
from tcprobe.gemm.ops import canonical_type, family_of
from tcprobe.gemm.record import parse_dtype, parse_json_shapes, parse_object, parse_shape
from tcprobe.schema.columns import Table
from tcprobe.schema.op import OpRecord

JoinKey: TypeAlias = tuple[str, ...]
_XLA_TYPES: Final = ("fusion", "custom-call")
# Fusions that XLA's emitters of loops, reductions and transpositions write: none of them multiplies matrices.
_NO_GEMM: Final = re.compile(r"(?:loop|input|wrapped)_|(?:copy|transpose|convert|broadcast|bitcast|reduce)_?fusion")
_AGREED: Final = ("layer", "layer_class", "pass", "source", "called_from")


class OpName(Struct, frozen=True):
    """One op as a profile names it."""

    op: str  # path
    op_type: str | None  # type; None where the source has none
    # hlo_module, hlo_op: XLA module and instruction, None outside XLA.
    hlo_module: str | None = None
    hlo_op: str | None = None
    # layer, pass_: as the source itself says, where it does.
    layer: str | None = None
    pass_: str | None = None

    @property
    def may_multiply(self) -> bool:
        """Whether it may be a matrix multiplication.

        XLA gives its name to what it fuses around it, too, and TensorFlow gives it the name of what it is fused with,
        which stands in the profile where it is not. A fusion or library call in which the module has a dot has the
        type of that dot.
        """
        if self.op_type is None:
            return _NO_GEMM.match(self.hlo_op or "") is None
        if self.op_type.endswith("fusion"):
            return False
        return family_of(self.op_type) is not None or (self.hlo_op is not None and self.op_type == "custom-call")


class Attribution(Struct, frozen=True):
    """Where an op comes from; what is not known is None."""

    # layer, layer_class, pass_, source, called_from: as in the contract of `ops`.
    layer: str | None = None
    layer_class: str | None = None
    pass_: str | None = None
    source: str | None = None
    called_from: str | None = None
    # rows of `graph_ops` that the op may be, best first; none of an op that only shares their name
    rows: tuple[int, ...] = ()
    # graph (joined), reported (by the source), name (told from the path), None (nothing known)
    basis: str | None = None


def attribute_ops(names: Sequence[OpName], index: GraphIndex) -> list[Attribution]:
    """Join ops to graph records: by HLO instruction, executed name and type, traced name, then aliases.

    Branch and body counters, call prefixes and rewriters' prefixes do not count. Where several records fit, only
    what they agree on is said. Without a record, the path tells as much as it safely can.
    """
    models = model_scopes((n.op, n.op_type) for n in names)
    known = KnownScopes.of((n.op, n.op_type) for n in names)
    found = [(name, index.find(name)) for name in names]
    return [
        _from_graph(index, name, rows) if rows else _without_graph(name, models, known, index) for name, rows in found
    ]


def with_layers(graph: Table, scopes: Table | None = None) -> Table:
    """Return the graph with layer and pass of XLA's instructions, by the path of the op that they stand for.

    Args:
        graph: `graph_ops`.
        scopes: `scopes`, where the probe recorded them.
    """
    kinds = [family_of(op_type) or "" for op_type in graph.names("op_type").tolist()]
    if not any(kind.startswith("hlo") for kind in kinds):
        return graph
    pairs = list(zip(graph.names("op").tolist(), graph.names("op_type").tolist(), strict=True))
    names = [OpName(str(op), op_type) for op, op_type in pairs]
    ops = [(n.op, n.op_type) for n in names]
    models, known = model_scopes(ops), KnownScopes.of(ops)
    layers, passes, recorded = graph.values("layer"), graph.values("pass"), RecordedScopes.of(scopes)
    for row, name in enumerate(names):
        path = parse_path(name.op)
        if kinds[row].startswith("hlo") and layers[row] is None:
            layers[row] = recorded.layer_of(path) or layer_of(scope_of(path, known), models)
            passes[row] = passes[row] or pass_of_path(path, name.op_type, layers[row] is not None)
    return Table(graph.spec, {**graph.columns, "layer": layers, "pass": passes})


def with_proof(graph: Table, ran: frozenset[int]) -> Table:
    """Return the graph with ops marked that the profile shows: they execute, whatever the graph says.

    Args:
        graph: `graph_ops`; says ``no`` of ops that the optimised graph no longer holds, or nothing needs.
        ran: rows that ops of the profile are.
    """
    executes, basis = graph.values("executes"), graph.values("executes_basis")
    news = [row for row in sorted(ran) if executes[row] != "yes"]
    for row in news:
        executes[row], basis[row] = "yes", "profile"
    return Table(graph.spec, {**graph.columns, "executes": executes, "executes_basis": basis}) if news else graph


def _without_graph(name: OpName, models: frozenset[str], known: KnownScopes, index: GraphIndex) -> Attribution:
    """Return layer and pass as the source reports them, else as the path tells."""
    if name.layer is not None:
        return Attribution(layer=name.layer, pass_=name.pass_, basis="reported")
    found = _from_path(name, models, known, index)
    return found if name.pass_ is None else replace(found, pass_=name.pass_)


def _from_path(name: OpName, models: frozenset[str], known: KnownScopes, index: GraphIndex) -> Attribution:
    """Return the layer of the graph's ops in the same scope, else the scope itself as the layer."""
    path = parse_path(name.op)
    if (made_by := index.scopes.layer_of(path)) is not None:
        return Attribution(layer=made_by, pass_=pass_of_path(path, name.op_type, True), basis="graph")
    scopes = scope_of(path, known)
    layer = layer_of(scopes, models)
    if (row := index.in_scope(scopes)) is not None:
        pass_ = pass_of_path(path, name.op_type, True)
        own = {column: index.agreed(column, [row]) for column in ("layer", "layer_class", "source")}
        return Attribution(**own, pass_=pass_, basis="name")
    pass_ = pass_of_path(path, name.op_type, layer is not None)
    if layer is not None and (model := index.model_at(scopes)) is not None:
        layer = model
    elif layer is not None and (model := index.model_at(scopes[:-1])) is not None:
        layer = f"{model}/{scopes[-1]}"
    return Attribution(layer=layer, pass_=pass_, basis="name" if layer or pass_ else None)


def _from_graph(index: GraphIndex, name: OpName, rows: list[int]) -> Attribution:
    agreed = {column: index.agreed(column, rows) for column in _AGREED}
    agreed["pass_"] = agreed.pop("pass")
    return Attribution(**agreed, rows=tuple(rows) if name.may_multiply else (), basis="graph")


class GraphIndex:
    """Records of the graph by the names under which a profile may show them, the most trusted kind of name first.

    Attributes:
        scopes: which layer made the ops of a scope.
    """

    def __init__(
        self, graph: Table, runs_as: Mapping[tuple[str, str], Sequence[int]] | None = None, scopes: Table | None = None
    ) -> None:
        """Index a graph.

        Args:
            graph: `graph_ops`.
            runs_as: (HLO module, instruction) -> rows that it may be.
            scopes: `scopes`, where the probe recorded them.
        """
        self._columns = {c: graph.values(c) for c in (*_AGREED, "executes")}
        self._scopes: dict[Scopes, list[int]] = {}
        self._models: dict[Scopes, set[str]] = {}
        self._by_key: list[dict[JoinKey, list[int]]] = [{} for _ in range(6)]
        wanted = ("function", "op", "op_type", "executed_op", "executed_type", "attributes")
        columns: list[list[Any]] = [graph.values(c) for c in wanted]
        for row, (function, op, op_type, executed, executed_type, attributes) in enumerate(zip(*columns, strict=True)):
            if self._tells_scope(row):
                around = scope_of(parse_path(op), NOTHING_KNOWN)
                self._scopes.setdefault(around, []).append(row)
                self._models.setdefault(around[:-1], set()).add(str(self._columns["layer"][row]).rpartition("/")[0])
            self._add(0, row, function, executed or op)
            self._add(1, row, executed, executed_type)
            self._add(2, row, plain_path(executed or op), canonical_type(executed_type or op_type))
            self._add(3, row, plain_path(op), canonical_type(op_type))
            self._add(5, row, plain_path(executed or op))
            self._add(5, row, plain_path(op))
            for alias in aliases_of(parse_object(attributes)):
                self._add(4, row, plain_path(alias.rpartition(":")[0] or alias))
        for instruction, found in (runs_as or {}).items():
            self._by_key[0][instruction] = list(found)
        self.scopes = RecordedScopes.of(scopes)

    def _tells_scope(self, row: int) -> bool:
        layer, pass_, executes = (self._columns[c][row] for c in ("layer", "pass", "executes"))
        return layer is not None and pass_ == "forward" and executes != "no"

    def _add(self, level: int, row: int, *key: str | None) -> None:
        if None not in key:
            self._by_key[level].setdefault(tuple(str(k) for k in key), []).append(row)

    def find(self, name: OpName) -> list[int]:
        """Return the rows of the graph that the op may be, by its most trusted name; those that execute go first.

        An instruction of an HLO module knows no layer; the traced op that it stands for does, and goes before it.
        """
        simple, kind = plain_path(name.op), canonical_type(name.op_type or "")
        keys: list[JoinKey] = [
            (name.hlo_module or "", name.hlo_op or ""), (name.op, name.op_type or ""), (simple, kind), (simple, kind),
            (simple,),
        ]  # fmt: skip
        found = [rows for level, key in enumerate(keys) if (rows := self._by_key[level].get(key))]
        found.append(self._without_type(name, simple))
        in_layer = (rows for rows in found if any(self._columns["layer"][row] is not None for row in rows))
        return self._executing(list(dict.fromkeys(next(in_layer, found[0]))))  # two names of one op may be alike

    def _without_type(self, name: OpName, simple: str) -> list[int]:
        """Return the rows of that name, whatever their type: XLA shows an op's name on instructions of other types."""
        kind = family_of(name.op_type) or ""
        if name.hlo_op is None and not kind.startswith("hlo") and name.op_type not in _XLA_TYPES:
            return []
        return self._executing(list(dict.fromkeys(self._by_key[5].get((simple,), []))))

    def in_scope(self, scopes: Scopes) -> int | None:
        """Return a row of the one layer whose forward ops stand in this scope; None where there is none, or several."""
        rows = self._scopes.get(scopes, [])
        return rows[0] if len({self._columns["layer"][row] for row in rows}) == 1 else None

    def model_at(self, scopes: Scopes) -> str | None:
        """Return the model whose layers stand in this scope, as their records name it; None where that is not sure."""
        found = self._models.get(scopes, set()) - {""}
        return next(iter(found)) if len(found) == 1 else None

    def _executing(self, rows: list[int]) -> list[int]:
        for answer in ("yes", "unknown"):
            if kept := [row for row in rows if self._columns["executes"][row] == answer]:
                return kept
        return rows

    def agreed(self, column: str, rows: list[int]) -> Any:
        """Return the value that all rows share; None where they differ."""
        values = {self._columns[column][row] for row in rows}
        return values.pop() if len(values) == 1 else None


def aliases_of(attributes: Mapping[str, Any]) -> list[str]:
    """Return the other names under which a traced op may appear in a profile."""
    found = attributes.get("aliases")
    return [a for a in found if isinstance(a, str)] if isinstance(found, list) else []


def graph_record(graph: Table, row: int) -> OpRecord:
    """Return one row of `graph_ops` as a record, of which `tcprobe.gemm` counts the FLOPs."""

    def at(column: str) -> str | None:
        return graph.names(column)[row]

    return OpRecord(
        str(at("op_type")),
        parse_json_shapes(at("input_shapes")),
        parse_shape(at("output_shape")),
        parse_object(at("attributes")),
        parse_dtype(at("input_dtypes")),
        at("pass"),
    )


def profile_record(details: Table, row: int, pass_: str | None = None, dtype: str | None = None) -> OpRecord:
    """Return one row of `op_details` as such a record.

    Pass and dtype are those of its row in `ops`: where the source gives no dtype, that of the op's kernels.
    """
    names = {c: details.names(c)[row] for c in ("op_type", "input_shapes", "output_shape", "dtype", "attributes")}
    shapes, output = parse_json_shapes(names["input_shapes"]), parse_shape(names["output_shape"])
    return OpRecord(
        names["op_type"] or "", shapes, output, parse_object(names["attributes"]), names["dtype"] or dtype, pass_
    )
