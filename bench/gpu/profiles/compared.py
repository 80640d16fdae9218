"""Set the figures of several recorders for the same training step side by side, and beside hardware counters.

Names of a kernel differ from tool to tool, for each spells C++ its own way: `comparable` takes that out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from bench.gpu.day import status_of
from bench.gpu.profiles import kernels
from bench.gpu.profiles.kernels import Tally
from bench.gpu.tables import read_table, readings
from tcprobe.analysis.kernels.counters import judge_counters
from tcprobe.analysis.kernels.cxx import parse
from tcprobe.analysis.kernels.verdict import classify
from tcprobe.hardware import Capability
from tcprobe.schema.kinds import UsesTc

ORDER: Final = ("plain", "xspace", "kineto", "nsys", "ncu")
_CAST: Final = re.compile(r"\((?:[A-Za-z_][\w: ]*)\)(?=[-\d])")
_LAMBDA: Final = re.compile(r"\[lambda(\([^\[\]]*?\)) \(instance (\d+)\)\]")
_SUFFIX: Final = re.compile(r"\b(\d+)[uU]?[lL]{0,2}\b")


@dataclass(frozen=True, slots=True)
class Counted:
    """What counters say of the launches of one kernel name: their number, and ns by verdict."""

    kernel: str
    calls: int
    ns: Mapping[UsesTc, float]
    evidence: str

    @property
    def verdict(self) -> UsesTc:
        """Return what all launches agree on; unknown where they do not, or nothing is proved."""
        found = [verdict for verdict, ns in self.ns.items() if ns]
        return found[0] if len(found) == 1 else "unknown"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorder's figures of a step.

    Attributes:
        recorder: that recorded it.
        version: of the framework.
        precision: in which it multiplied.
        step_ns: of a step while it recorded; None under ncu, which runs every kernel many times.
        plain_step_ns: of a step without a profiler: in the same process before, else in a process without any.
        overhead_pct: by how much the former exceeds the latter.
        kernel_ns, kernels: summed time, and launches, of kernels per step; None where no whole step was counted, or
            none ran.
        tc_pct, unknown_pct: shares of kernel time in Tensor Core kernels, and of unknown class, by names.
        counter_tc_pct, counter_unknown_pct: the same by the counters of kernels of the same names; None without any.
        peak_memory_bytes: as the framework has it.
        notes: what was not as asked for.
    """

    recorder: str
    version: str
    precision: str
    step_ns: float | None
    plain_step_ns: float | None
    overhead_pct: float | None
    kernel_ns: float | None
    kernels: float | None
    tc_pct: float | None
    unknown_pct: float | None
    counter_tc_pct: float | None
    counter_unknown_pct: float | None
    peak_memory_bytes: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A kernel whose name and counters contradict each other."""

    kernel: str
    by_name: UsesTc
    name_evidence: str
    by_counters: Literal["yes", "no"]
    counter_evidence: str


@dataclass(frozen=True, slots=True)
class Uneven:
    """A kernel that recorders saw in different numbers: launches per step by recorder, 0 where it lacks the name."""

    kernel: str
    per_step: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Step:
    """A training step by all its recorders.

    Attributes:
        model, framework: of the step; the framework with its second precision (torch.tf32), as in names of units.
        recordings: one per recorder that came to its end.
        contradictions: costliest first.
        uneven: costliest first.
    """

    model: str
    framework: str
    recordings: tuple[Recording, ...]
    contradictions: tuple[Contradiction, ...]
    uneven: tuple[Uneven, ...]


@dataclass(frozen=True, slots=True)
class _Unit:
    """A recorded unit as read; `table` is by comparable name, with each name as the recorder has it."""

    told: Mapping[str, Any]
    table: Mapping[str, tuple[str, Tally]]
    counted: Mapping[str, Counted]


def compare(folder: Path, capability: Capability | None) -> list[Step]:
    """Return every recorded training step of a day's results.

    Args:
        folder: of the results.
        capability: of the GPU, without which names and counters say less.
    """
    places = [place for place in (folder / "profiles").glob("*-*-*") if status_of(place) == "done"]
    steps: dict[tuple[str, str], dict[str, _Unit]] = {}
    for place in sorted(places):
        model, framework, recorder = place.name.split("-")
        steps.setdefault((model, framework), {})[recorder] = _unit(place, capability)
    return [_step(model, framework, units, capability) for (model, framework), units in steps.items()]


def comparable(name: str) -> str:
    """Return a kernel's name as the tools agree on it.

    Without result type, parameters and blanks; without casts of template arguments, which Nsight Compute writes
    (`(int)4`, `(bool)1` for `4`, `true`); lambdas and unnamed namespaces as Kineto and XSpaces write them.
    """
    name = name.replace("<unnamed>", "(anonymous namespace)")
    name = _LAMBDA.sub(r"{lambda\1#\2}", name)
    read = parse(name)
    text = read.path if read.arguments is None else f"{read.path}<{read.arguments}>"
    text = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", _SUFFIX.sub(r"\1", _CAST.sub("", text))))
    return re.sub(r"\s+", "", text)


def _unit(place: Path, capability: Capability | None) -> _Unit:
    told = json.loads((place / "step.json").read_text(encoding="utf-8"))
    if told["recorder"] == "ncu":
        rows = read_table(place / kernels.FILE)
        return _Unit(told, _joined(kernels.tally(_launches(rows))), _counted(rows, capability))
    return _Unit(told, _joined(kernels.read(place)), {})


def _launches(rows: Iterable[Mapping[str, str]]) -> Iterable[tuple[str, int]]:
    return ((row["kernel"], round(float(row["duration_ns"] or 0))) for row in rows)


def _joined(table: Mapping[str, Tally]) -> dict[str, tuple[str, Tally]]:
    """Return a table by comparable name; names that become one are summed under the first of them."""
    found: dict[str, tuple[str, Tally]] = {}
    for name, one in table.items():
        key = comparable(name)
        first, other = found.get(key, (name, None))
        found[key] = (first, _sum(one, other) if other else one)
    return found


def _sum(a: Tally, b: Tally) -> Tally:
    return Tally(a.calls + b.calls, a.sum_ns + b.sum_ns, min(a.min_ns, b.min_ns), max(a.max_ns, b.max_ns))


def _counted(rows: Iterable[Mapping[str, str]], capability: Capability | None) -> dict[str, Counted]:
    found: dict[str, Counted] = {}
    for row in rows:
        judged = judge_counters(readings(row), capability)
        verdict: UsesTc = judged.uses_tc if judged else "unknown"
        ns, key = float(row["duration_ns"] or 0), comparable(row["kernel"])
        old = found.get(key) or Counted(row["kernel"], 0, {}, "")
        spent = {**old.ns, verdict: old.ns.get(verdict, 0.0) + ns}
        found[key] = Counted(old.kernel, old.calls + 1, spent, old.evidence or (judged.evidence if judged else ""))
    return found


def _step(model: str, framework: str, units: Mapping[str, _Unit], capability: Capability | None) -> Step:
    counted = units["ncu"].counted if "ncu" in units else {}
    alone = units["plain"].told["step_ns"] if "plain" in units else None
    ordered = [units[name] for name in ORDER if name in units]
    return Step(
        model,
        framework,
        tuple(_recording(unit, alone, counted, capability) for unit in ordered),
        tuple(_contradictions(counted.values(), capability)),
        tuple(
            _uneven({str(unit.told["recorder"]): unit for unit in ordered if unit.table and unit.told["counted_steps"]})
        ),
    )


def _recording(
    unit: _Unit, alone: float | None, counted: Mapping[str, Counted], capability: Capability | None
) -> Recording:
    told, steps = unit.told, unit.told["counted_steps"]
    step_ns, plain_ns = told.get("step_ns"), told.get("plain_step_ns") or alone
    spent = sum(one.sum_ns for _, one in unit.table.values())
    by_name = _shares((classify(name, capability).uses_tc, one.sum_ns) for name, one in unit.table.values())
    if told["recorder"] == "ncu":
        launches: Iterable[tuple[UsesTc, float]] = (pair for one in counted.values() for pair in one.ns.items())
    else:
        known = {key: one.verdict for key, one in counted.items()}
        launches = ((known.get(key, "unknown"), one.sum_ns) for key, (_, one) in unit.table.items())
    by_counters = _shares(launches) if counted else (None, None)
    return Recording(
        told["recorder"],
        told["version"],
        told["precision"],
        step_ns,
        plain_ns,
        100 * (step_ns / plain_ns - 1) if step_ns and plain_ns and told["recorder"] != "plain" else None,
        spent / steps if spent and steps else None,
        sum(one.calls for _, one in unit.table.values()) / steps if spent and steps else None,
        *by_name,
        *by_counters,
        told.get("peak_memory_bytes"),
        tuple(told["notes"]),
    )


def _shares(kernels: Iterable[tuple[UsesTc, float]]) -> tuple[float | None, float | None]:
    """Return the percentages of time in Tensor Core kernels and of unknown class; None where no time was spent."""
    spent: dict[UsesTc, float] = {}
    for verdict, ns in kernels:
        spent[verdict] = spent.get(verdict, 0.0) + ns
    whole = sum(spent.values())
    return (100 * spent.get("yes", 0) / whole, 100 * spent.get("unknown", 0) / whole) if whole else (None, None)


def _contradictions(counted: Iterable[Counted], capability: Capability | None) -> Iterable[Contradiction]:
    for one in sorted(counted, key=lambda one: (-sum(one.ns.values()), one.kernel)):
        named, proved = classify(one.kernel, capability), one.verdict
        if proved != "unknown" and {named.uses_tc, proved} == {"yes", "no"}:
            yield Contradiction(one.kernel, named.uses_tc, named.evidence, proved, one.evidence)


def _uneven(units: Mapping[str, _Unit]) -> Iterable[Uneven]:
    """Yield the kernels whose launches per step differ between recorders."""
    cost: dict[str, float] = {}
    names: dict[str, str] = {}
    for unit in units.values():
        for key, (name, one) in unit.table.items():
            cost[key] = max(cost.get(key, 0.0), one.sum_ns / unit.told["counted_steps"])
            names.setdefault(key, name)
    for key in sorted(cost, key=lambda key: (-cost[key], key)):
        calls = {recorder: _per_step(unit, key) for recorder, unit in units.items()}
        if len(set(calls.values())) > 1:
            yield Uneven(names[key], calls)


def _per_step(unit: _Unit, key: str) -> float:
    return unit.table[key][1].calls / unit.told["counted_steps"] if key in unit.table else 0.0
