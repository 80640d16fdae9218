"""Hold what a kernel's name says against what hardware counters prove, launch by launch, as data."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bench.gpu.tables import read_table, readings
from tcprobe.analysis.capability import tc_blocker
from tcprobe.analysis.kernels.counters import CounterVerdict, judge_counters
from tcprobe.analysis.kernels.precision import precision_of_dtype
from tcprobe.analysis.kernels.verdict import Verdict, classify, may_multiply
from tcprobe.hardware import Capability
from tcprobe.schema.kinds import UsesTc

Outcome = Literal["agreement", "contradiction", "unknown", "unproved"]
"""Of name and counters: unknown is what the name does not tell and counters prove, unproved what they do not prove."""
PrecisionOutcome = Literal["agreement", "contradiction", "wider", "untold", "untested"]
"""Of the name's precision and the truth: wider is a type that holds the case's, which the framework converted to."""
Row: TypeAlias = Mapping[str, str]

OP_TYPES: Final = {"gemm": "dot", "conv": "convolution", "attention": "aten::scaled_dot_product_attention"}
"""Op of a case -> an op type by which tcprobe knows it; other ops multiply no matrices."""
HOLDS: Final[Mapping[str, frozenset[str]]] = {
    "fp16": frozenset({"tf32", "fp32", "fp64"}),
    "bf16": frozenset({"tf32", "fp32", "fp64"}),
    "fp8": frozenset({"fp16", "bf16", "tf32", "fp32"}),
    "int8": frozenset({"fp16", "bf16", "tf32", "fp32"}),
    "tf32": frozenset({"fp32", "fp64"}),
    # libraries multiply float32 exactly by several products of its parts in TF32 or bfloat16
    "fp32": frozenset({"tf32", "bf16", "fp64"}),
}
"""Precision -> those that a framework may multiply it in without losing digits."""
BLOCKS: Final = frozenset({"not_nvidia", "gpu", "dtype", "tf32", "shape_required", "type"})
"""Blockers that say for certain that a case cannot use Tensor Cores."""
_SOURCE: Final = re.compile(r"sm(?:sp)?__ops_path_tensor\w*_src_([a-z]+\d+)(?:_\w*)?\.sum")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in one configuration of one case.

    Attributes:
        source: folder of the unit, below that of the results.
        case, op, pass_, dtype, shape: of the case; None where not known (a kernel of a whole step).
        aligned: whether its sizes are; None where that means nothing or is not known.
        kernel: its name, as the verdict was asked for it; `spelling` says which of its two names that is.
        grid, block: as recorded.
        launches: number of launches in this configuration that counters judge alike.
        duration_ns: of these launches together; None if unknown.
        by_name: verdict by its name.
        counted: what counters prove; None if nothing.
        outcome: of the two.
        expected: precision that the case or its counters tell; None if they do not.
        precision: of that and the name's.
    """

    source: str
    case: str
    op: str | None
    pass_: str | None
    dtype: str | None
    shape: str | None
    aligned: bool | None
    kernel: str
    spelling: Literal["demangled", "mangled"]
    grid: str
    block: str
    launches: int
    duration_ns: float | None
    by_name: Verdict
    counted: CounterVerdict | None
    outcome: Outcome
    expected: str | None
    precision: PrecisionOutcome


@dataclass(frozen=True, slots=True)
class Case:
    """What a case that multiplies matrices ran on.

    Attributes:
        source, case, op, pass_, dtype, shape, aligned: as in `Kernel`.
        uses_tc: yes if counters prove it of one of its kernels, no if they prove that none does.
        kernel: its longest one.
        foretold: what tcprobe says beforehand keeps it off the Tensor Cores (`tc_blocker_kind`); ``none`` if nothing.
    """

    source: str
    case: str
    op: str
    pass_: str | None
    dtype: str
    shape: str
    aligned: bool | None
    uses_tc: UsesTc
    kernel: str
    foretold: str


def counted_tables(folder: Path) -> Iterator[Path]:
    """Yield the tables of launches with counters of all units, those of single ops first."""
    yield from sorted(folder.glob("classification/*/kernels.csv.gz"))
    yield from sorted(folder.glob("profiles/*-ncu/kernels.csv.gz"))


def kernels_of(path: Path, cases: Mapping[str, Row], capability: Capability | None) -> list[Kernel]:
    """Return the kernels of one table of launches, in the order of their first launch.

    One whose mangled name tells something else than the demangled one comes by both.

    Args:
        path: ``kernels.csv.gz`` with counters.
        cases: rows of ``cases.csv.gz`` by case; empty where there are none.
        capability: of the GPU; None proves less.

    Raises:
        KeyError, ValueError: a column is missing, a value is no number.
    """
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    proofs: dict[tuple[str, ...], CounterVerdict | None] = {}
    for row in read_table(path):
        proof = judge_counters(readings(row), capability)
        key = (row["case"], row["kernel"], row["mangled"], row["grid"], row["block"], proof.uses_tc if proof else "")
        groups[key].append(row)
        proofs.setdefault(key, proof)
    source = path.parent.parent.name + "/" + path.parent.name
    return [
        kernel
        for key, rows in groups.items()
        for kernel in _spelt(source, rows, proofs[key], cases.get(key[0], {}), capability)
    ]


def cases_of(
    rows: Iterable[Row], kernels: Iterable[Kernel], source: str, capability: Capability | None
) -> Iterator[Case]:
    """Yield what each case that multiplies matrices and whose kernels were counted ran on."""
    by_case: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.spelling == "demangled":
            by_case[kernel.case].append(kernel)
    for row in rows:
        found = by_case.get(row["case"])
        if found and row["op"] in OP_TYPES:
            proved: set[UsesTc | None] = {k.counted.uses_tc if k.counted else None for k in found}
            uses: UsesTc = "yes" if "yes" in proved else "no" if proved == {"no"} else "unknown"
            longest = max(found, key=lambda k: k.duration_ns or 0.0).kernel
            told = (source, row["case"], row["op"], row["pass"] or None, row["dtype"], row["shape"])
            yield Case(*told, _flag(row["aligned"]), uses, longest, _foretold(row, capability))


def _foretold(row: Row, capability: Capability | None) -> str:
    """Return what tcprobe says of a case before anything ran."""
    tf32 = row["dtype"] == "tf32"
    return tc_blocker(
        OP_TYPES[row["op"]],
        "float32" if tf32 else row["dtype"],
        None,
        compute_capability=capability,
        tf32_allowed=tf32,
        contiguous_dims_bytes_aligned=_flag(row["aligned"]),
        uses_tc=None,
    ).kind


def _spelt(
    source: str, rows: list[Row], proof: CounterVerdict | None, case: Row, capability: Capability | None
) -> Iterator[Kernel]:
    """Yield a kernel by its demangled name, and by its mangled one where that tells something else."""
    kernel = _kernel(source, rows, "demangled", proof, case, capability)
    yield kernel
    if rows[0]["mangled"] not in ("", rows[0]["kernel"]):
        other = _kernel(source, rows, "mangled", proof, case, capability)
        if (other.outcome, other.precision) != (kernel.outcome, kernel.precision):
            yield other


def _kernel(
    source: str,
    rows: list[Row],
    spelling: Literal["demangled", "mangled"],
    proof: CounterVerdict | None,
    case: Row,
    capability: Capability | None,
) -> Kernel:
    first = rows[0]
    name = first["mangled" if spelling == "mangled" else "kernel"]
    verdict = classify(name, capability)
    expected, precision = _precision(case, first, verdict, proof)
    times = [float(row["duration_ns"]) for row in rows if row["duration_ns"]]
    op, pass_, dtype, shape = (case.get(column) or None for column in ("op", "pass", "dtype", "shape"))
    return Kernel(
        source,
        first["case"],
        op,
        pass_,
        dtype,
        shape,
        _flag(case.get("aligned", "")),
        name,
        spelling,
        first["grid"],
        first["block"],
        len(rows),
        sum(times) if len(times) == len(rows) else None,
        verdict,
        proof,
        _outcome(verdict, proof),
        expected,
        precision,
    )


def _outcome(verdict: Verdict, proof: CounterVerdict | None) -> Outcome:
    if proof is None:
        return "unproved"
    if verdict.uses_tc == "unknown":
        return "unknown"
    return "agreement" if verdict.uses_tc == proof.uses_tc else "contradiction"


def _precision(
    case: Row, launch: Row, verdict: Verdict, proof: CounterVerdict | None
) -> tuple[str | None, PrecisionOutcome]:
    """Return the true precision of a kernel that multiplies, and whether its name tells it.

    Counters of operations by operand type decide; without them the case's dtype does, which a framework may convert.
    """
    uses = proof.uses_tc if proof else verdict.uses_tc
    counted = _counted_precisions(tuple(sorted(readings(launch).items()))) if uses == "yes" else frozenset()
    if not counted and not _multiplies(case, verdict, uses):
        return None, "untested"
    dtype = case.get("dtype")
    expected = "/".join(sorted(counted)) or (precision_of_dtype("float32" if dtype == "tf32" else dtype, uses))
    told = verdict.precision
    if told is None or expected is None:
        return expected, "untold" if expected else "untested"
    if told in (counted or {expected}):
        return expected, "agreement"
    wider = not counted and told in HOLDS.get("fp32" if dtype == "float32" else expected, ())
    return expected, "wider" if wider else "contradiction"


def _multiplies(case: Row, verdict: Verdict, uses: UsesTc) -> bool:
    """Return whether a kernel is the product of its case, and no helper of it."""
    product = uses == "yes" or (verdict.uses_tc != "unknown" and may_multiply(verdict))
    return product and case.get("op") in OP_TYPES


@lru_cache(maxsize=4096)
def _counted_precisions(readings: tuple[tuple[str, tuple[float, str]], ...]) -> frozenset[str]:
    return frozenset(
        found[1] for metric, (value, _) in readings if value > 0 and (found := _SOURCE.fullmatch(metric)) is not None
    )


def _flag(text: str) -> bool | None:
    return {"1": True, "0": False}.get(text)
