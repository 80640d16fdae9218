"""Join the products that were traced with those that XLA ran: its optimised modules show what became of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct, field

from tcprobe.analysis.ops.attribution import aliases_of, graph_record
from tcprobe.analysis.ops.paths import MOST_SCOPES, plain_path
from tcprobe.gemm.ops import family_of, gemms_of
from tcprobe.gemm.record import flops_of, parse_object
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile

BY_MODULE: Final = "optimised HLO"
LENGTH_1: Final = "length 1"
INCOMPLETE: Final = frozenset(("xla-modules-missing", "xla-calls-unread", "events-lost", "event-cap"))
Instruction: TypeAlias = tuple[str, str]
Sizes: TypeAlias = tuple[int, ...]


class XlaJoin(Struct, frozen=True):
    """What XLA's modules say of the graph."""

    # `graph_ops` with `executes` of what XLA compiled. Of XLA's instructions, those stay that no traced op explains, in
    # modules that hold traced ones: products of its own.
    graph: Table
    # (module, instruction) -> rows of `graph` that it may be
    runs_as: dict[Instruction, tuple[int, ...]] = field(default_factory=dict)


class _Product(Struct, frozen=True):
    """One row of the graph: a traced product, or one of an HLO module (then `function` is that)."""

    row: int
    function: str
    names: tuple[str, ...]
    executes: str
    sizes: Sizes | None
    flops: int | None
    summed: bool
    named: bool


def join_xla(profile: Profile) -> XlaJoin:
    """Say of each traced product that XLA compiled whether a module that ran holds it.

    By name; else an instruction without a name that has its output's sizes (those of 1 left out), each given out once;
    else the op does not execute. That is said only of functions of which some product was found, and where all that XLA
    ran could be read. Where an op and what XLA left cannot be told apart, it stays unknown. The order of rows does not
    matter.
    """
    graph = profile.require("graph_ops")
    hlo = np.array([(family_of(t) or "").startswith("hlo") for t in graph.names("op_type").tolist()], np.bool_)
    if not hlo.any() or hlo.all():
        return XlaJoin(graph)
    traced = [_product(graph, row) for row in np.flatnonzero(~hlo).tolist()]
    made = [_product(graph, row) for row in np.flatnonzero(hlo).tolist()]
    join = _Join(made, _is_whole(profile))
    join.by_name(traced)
    for name, members in sorted(_by_function(traced).items()):
        join.by_size(name, members)
    return join.result(graph, np.flatnonzero(~hlo).tolist())


def _is_whole(profile: Profile) -> bool:
    return INCOMPLETE.isdisjoint(note.code for note in profile.metadata.notes)


def _product(graph: Table, row: int) -> _Product:
    def text(column: str) -> str:
        return str(graph.names(column)[row] or "")

    record, attributes = graph_record(graph, row), parse_object(graph.names("attributes")[row])
    gemms = gemms_of(record)
    names = dict.fromkeys(plain_path(name) for name in (text("op"), *aliases_of(attributes)))
    return _Product(
        row,
        text("function"),
        tuple(names),
        text("executes"),
        _sizes(record.output_shape),
        flops_of(gemms),
        not gemms or any(gemm.k != 1 for gemm in gemms),
        attributes.get("unnamed") is not True,
    )


def _sizes(shape: Sequence[int | None] | None) -> Sizes | None:
    """Return the sizes of a shape in order, without those of 1; None where one is unknown."""
    if shape is None:
        return None
    known = [size for size in shape if size is not None]
    return tuple(sorted(size for size in known if size != 1)) if len(known) == len(shape) else None


class _Join:
    """The matching as it goes: which instructions each traced row runs as, and what is said of its execution."""

    def __init__(self, made: Sequence[_Product], whole: bool) -> None:
        self._made = made
        self._whole = whole
        self._runs_as: dict[int, set[int]] = defaultdict(set)  # of an instruction's row: the traced ones
        self._modules: dict[str, set[str]] = defaultdict(set)  # of a function: where its products were found
        self._verdicts: dict[int, tuple[str, str]] = {}
        self._grown: set[str] = set()  # modules in which a product is larger than what was traced

    def by_name(self, traced: Sequence[_Product]) -> None:
        """Match instructions that bear the name of a traced op, whatever stands around it.

        Functions may hold ops of one name. A module is of those of which it holds most.
        """
        known: dict[str, list[_Product]] = defaultdict(list)
        for product in traced:
            for name in product.names:
                known[name].append(product)
        for members in _by_function(self._made).values():
            named = [(made, found) for made in members if made.named and (found := _longest(made.names[0], known))]
            held = Counter(function for _, found in named for function in {p.function for p in found})
            owners = {function for function, count in held.items() if count == max(held.values())}
            for made, found in named:
                self._take(made, _likeliest([p for p in found if p.function in owners]))

    def _take(self, made: _Product, found: Iterable[_Product]) -> None:
        for product in found:
            self._runs_as[made.row].add(product.row)
            self._modules[product.function].add(made.function)
            if product.executes != "yes" and self._verdicts.get(product.row, ("", ""))[0] != "yes":
                self._verdicts[product.row] = (made.executes, BY_MODULE)
            if made.sizes is None or product.sizes is None or np.prod(made.sizes) > np.prod(product.sizes):
                self._grown.add(made.function)

    def by_size(self, function: str, members: Sequence[_Product]) -> None:
        """Match what is left of a function, and say what became of the rest."""
        waiting = [p for p in members if p.executes == "unknown" and p.row not in self._verdicts]
        modules = self._modules[function] or self._unclaimed()
        mine = {product.row for product in members}
        free = [m for m in self._made if m.function in modules and not m.named]
        for exact in (True, False):
            self._match(_groups(waiting, exact), _groups(free, exact))
            waiting = [p for p in waiting if p.row not in self._verdicts]
            free = [m for m in free if mine.isdisjoint(self._runs_as[m.row])]
        if self._modules[function]:
            gone = self._whole and not free and self._grown.isdisjoint(modules)
            for product in waiting:
                if not product.summed:
                    self._verdicts[product.row] = ("no", LENGTH_1)
                elif gone and product.sizes is not None:
                    self._verdicts[product.row] = ("no", BY_MODULE)

    def _unclaimed(self) -> set[str]:
        return {made.function for made in self._made}.difference(*self._modules.values())

    def _match(self, waiting: Mapping[object, list[_Product]], free: Mapping[object, list[_Product]]) -> None:
        """Give instructions of some sizes to the ops of these sizes, if there are enough for all of them.

        Ops of one name are those of a function that is called several times: they are one in its module.
        """
        for key, products in waiting.items():
            found = free.get(key, [])
            if found and len({product.names for product in products}) <= len(found):
                for made in found:
                    self._take(made, products)

    def result(self, graph: Table, traced: list[int]) -> XlaJoin:
        """Return the graph as the modules show it."""
        held = set().union(*self._modules.values())
        own = [made.row for made in self._made if made.function in held and not self._runs_as[made.row]]
        kept = [*traced, *own]
        place = {row: index for index, row in enumerate(kept)}
        executes, basis = graph.values("executes"), graph.values("executes_basis")
        for row, (verdict, why) in self._verdicts.items():
            executes[row], basis[row] = verdict, why
        changed = Table(graph.spec, {**graph.columns, "executes": executes, "executes_basis": basis})
        instruction = graph.names("executed_op")
        runs_as = {
            (made.function, str(instruction[made.row])): tuple(sorted(place[row] for row in self._runs_as[made.row]))
            for made in self._made
            if self._runs_as[made.row]
        }
        return XlaJoin(changed.take(np.array(kept, np.int64)), runs_as)


def _by_function(products: Sequence[_Product]) -> dict[str, list[_Product]]:
    found: dict[str, list[_Product]] = defaultdict(list)
    for product in products:
        found[product.function].append(product)
    return found


def _longest(name: str, known: Mapping[str, list[_Product]]) -> list[_Product]:
    """Return the products of that name, else of the longest part of it that begins after a slash."""
    for _ in range(MOST_SCOPES):
        if not name or name in known:
            break
        name = name.partition("/")[2]
    return known.get(name, [])


def _likeliest(products: Sequence[_Product]) -> list[_Product]:
    """Return those that live and are compiled, else those that run elsewhere too, else those that were thought dead."""
    for answer in ("unknown", "yes"):
        if found := [product for product in products if product.executes == answer]:
            return found
    return list(products)


def _groups(products: Sequence[_Product], exact: bool) -> dict[object, list[_Product]]:
    """Return the products by the sizes of their outputs, of which all are known; `exact`: by their FLOPs too."""
    found: dict[object, list[_Product]] = defaultdict(list)
    for product in products:
        if product.sizes is not None and not (exact and product.flops is None):
            found[product.sizes, product.flops if exact else None].append(product)
    return found
