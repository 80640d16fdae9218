"""Classification against counters: of kernels by their names, of cases by what tcprobe foretells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.gpu.summary.classified import BLOCKS, Case, Kernel, Row, cases_of, counted_tables, kernels_of
from bench.gpu.summary.markdown import name, table
from bench.gpu.summary.section import FAKE, About, Data
from bench.gpu.tables import read_table
from tcprobe.errors import TcprobeError
from tcprobe.hardware import Capability

TITLE = "Classification against counters"
OUTCOMES = ("agreement", "contradiction", "unknown", "unproved")
PRECISIONS = ("agreement", "contradiction", "wider", "untold")
USES = ("yes", "no", "unknown")
ALIGNED = {True: "aligned", False: "unaligned", None: "either"}
UNCOUNTED = "it ran, but none of its kernels was counted"
MOST_SHOWN = 60


def make(about: About) -> Data:
    """Return what names and counters say of every launch, and what each case ran on."""
    kernels: list[Kernel] = []
    cases: list[Case] = []
    sources, damaged = [], []
    for path in counted_tables(about.folder):
        source = f"{path.parent.parent.name}/{path.parent.name}"
        try:
            rows = _cases(path)
            able = about.capability
            found = kernels_of(path, {row["case"]: row for row in rows}, able)
            ran = list(cases_of(rows, found, source, able))
            sources.append(_source(source, about, able, found, rows))
        except (OSError, EOFError, ValueError, KeyError, TcprobeError) as error:
            damaged.append({"source": source, "reason": f"{type(error).__name__}: {error}"})
            continue
        kernels += found
        cases += ran
    return {
        "sources": sources,
        "damaged": damaged,
        "contradictions": [asdict(k) for k in kernels if k.outcome == "contradiction"],
        "precision_contradictions": [asdict(k) for k in kernels if k.precision == "contradiction"],
        "wider": _wider(kernels),
        "unknown": _unknown(kernels),
        "alignment": _alignment(cases, about),
        "without": [asdict(c) for c in cases if c.uses_tc == "no" and c.foretold == "none"],
        "blocked_yet_used": [asdict(c) for c in cases if c.uses_tc == "yes" and c.foretold in BLOCKS],
    }


def _cases(path: Path) -> list[Row]:
    """Return the cases beside a table of launches; a step's launches have none."""
    beside = path.with_name("cases.csv.gz")
    return list(read_table(beside)) if beside.exists() else []


def _source(source: str, about: About, able: Capability | None, kernels: Iterable[Kernel], cases: list[Row]) -> Data:
    named = [k for k in kernels if k.spelling == "demangled"]
    outcomes, precisions = Counter[str](), Counter[str]()
    for kernel in named:
        outcomes[kernel.outcome] += kernel.launches
        precisions[kernel.precision] += kernel.launches
    framework = about.framework(source.rpartition("/")[2])
    counted = {kernel.case for kernel in named}
    ended = Counter(UNCOUNTED if r["status"] == "ran" else r["status"] for r in cases if r["case"] not in counted)
    return {
        "source": source,
        "framework": " ".join(framework) if framework else None,
        "capability": "{}.{}".format(*able) if able else None,
        "launches": sum(k.launches for k in named),
        "kernels": len({k.kernel for k in named}),
        "outcomes": {o: outcomes[o] for o in OUTCOMES},
        "precisions": {o: precisions[o] for o in PRECISIONS},
        "cases": len(cases),
        "not_counted": dict(sorted(ended.items())),
    }


def _wider(kernels: Iterable[Kernel]) -> list[Data]:
    found = Counter((k.dtype, k.op, k.by_name.precision, k.kernel) for k in kernels if k.precision == "wider")
    return [{"dtype": d, "op": o, "precision": p, "kernel": n, "cases": c} for (d, o, p, n), c in sorted(found.items())]


def _unknown(kernels: Iterable[Kernel]) -> list[Data]:
    """Return each name that tells nothing, with what counters prove of its launches."""
    found: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.by_name.uses_tc == "unknown":
            found[kernel.kernel].append(kernel)
    return [
        {
            "kernel": text,
            "evidence": group[0].by_name.evidence,
            "launches": sum(k.launches for k in group),
            "sources": sorted({k.source for k in group}),
            "cases": sorted({k.case for k in group}),
            "counted": dict(sorted(Counter(k.counted.uses_tc if k.counted else "unproved" for k in group).items())),
        }
        for text, group in sorted(found.items())
    ]


def _alignment(cases: Iterable[Case], about: About) -> list[Data]:
    """Return how many cases ran on Tensor Cores and how many did not, by framework, op, dtype and alignment."""
    found: dict[tuple[str, str, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for case in cases:
        framework = about.framework(case.source.rpartition("/")[2])
        key = framework[0] if framework else case.source, case.op, case.dtype
        found[key][ALIGNED[case.aligned]][case.uses_tc] += 1
    return [
        {"framework": f, "op": o, "dtype": d, **{a: {u: c[u] for u in USES} for a, c in by_alignment.items()}}
        for (f, o, d), by_alignment in sorted(found.items())
    ]


def of_all(row: Data, aligned: str) -> str | None:
    """Return how many cases ran on Tensor Cores, of how many; None without any."""
    if (counts := row.get(aligned)) is None:
        return None
    unproved = f" ({counts['unknown']} unproved)" if counts["unknown"] else ""
    return f"{counts['yes']} of {sum(counts.values())}{unproved}"


def show(data: Data, dry: bool) -> Iterator[str]:
    """Yield the counts by source, then each disagreement, each unknown name, each case without Tensor Cores."""
    fake = f" ({FAKE} counters)" if dry else ""
    if not data["sources"] and not data["damaged"]:
        yield "No counters were recorded."
        return
    if any(one["capability"] is None for one in data["sources"]):
        yield "The compute capability is not known: counters of 0 prove nothing.\n"
    for one in data["damaged"]:
        yield f"- `{one['source']}` cannot be read: {one['reason']}"
    yield from _by_source(data["sources"], fake)
    yield from _contradictions(data["contradictions"], fake)
    yield from _precisions(data, fake)
    yield from _unknown_names(data["unknown"], fake)
    yield from _shown_alignment(data, fake)


def _by_source(sources: list[Data], fake: str) -> Iterator[str]:
    yield f"Launches by what name and counters say{fake}. Unknown: the name does not tell; unproved: counters do not."
    yield ""
    head = ("recorded by", "framework", "#launches", "#names", "#cases", *(f"#{o}" for o in OUTCOMES))
    rows = [
        (s["source"], s["framework"], s["launches"], s["kernels"], s["cases"], *(s["outcomes"][o] for o in OUTCOMES))
        for s in sources
    ]
    yield from table(head, rows)
    yield from table(
        ("not counted in", "why", "#cases"),
        [(s["source"], why, n) for s in sources for why, n in s["not_counted"].items()],
    )


def _contradictions(found: list[Data], fake: str) -> Iterator[str]:
    yield f"### Contradictions between name and counters{fake}: {len(found)}"
    yield from table(
        ("kernel", "case", "by name", "evidence", "counters", "by"),
        [
            (
                name(k["kernel"]),
                _case(k),
                k["by_name"]["uses_tc"],
                k["by_name"]["evidence"],
                k["counted"]["uses_tc"],
                k["counted"]["evidence"],
            )
            for k in found
        ],
    )


def _precisions(data: Data, fake: str) -> Iterator[str]:
    found = data["precision_contradictions"]
    yield f"### Contradictions of precision{fake}: {len(found)}"
    yield from table(
        ("kernel", "case", "dtype", "by name", "true"),
        [(name(k["kernel"]), _case(k), k["dtype"], k["by_name"]["precision"], k["expected"]) for k in found],
    )
    if data["wider"]:
        yield "Multiplied in a wider type than the case's, by the framework's choice:\n"
    yield from table(
        ("dtype", "op", "precision", "kernel", "#cases"),
        [(w["dtype"], w["op"], w["precision"], name(w["kernel"]), w["cases"]) for w in data["wider"]],
    )


def _unknown_names(found: list[Data], fake: str) -> Iterator[str]:
    yield f"### Names that tell nothing{fake}: {len(found)}"
    yield from table(
        ("kernel", "why", "#launches", "counters say", "cases"),
        [
            (
                name(k["kernel"]),
                k["evidence"],
                k["launches"],
                ", ".join(k["counted"]),
                _few(k["cases"]),
            )
            for k in found[:MOST_SHOWN]
        ],
    )
    yield from _left(found)


def _shown_alignment(data: Data, fake: str) -> Iterator[str]:
    yield f"### Which products ran on Tensor Cores{fake}"
    yield from alignment_table([("", data["alignment"])])
    without = data["without"]
    yield f"Without Tensor Cores, though neither GPU nor dtype keeps them off{fake}: {len(without)}\n"
    yield from _shown_cases(without)
    used = data["blocked_yet_used"]
    yield f"On Tensor Cores, though tcprobe says that something keeps them off{fake}: {len(used)}\n"
    yield from _shown_cases(used)


def alignment_table(days: Iterable[tuple[str, list[Data]]]) -> list[str]:
    """Return the table of cases on Tensor Cores of days by name; without a name it has no column for it."""
    rows = [
        (
            *([day] if day else []),
            row["framework"],
            row["op"],
            row["dtype"],
            *(of_all(row, a) for a in ALIGNED.values()),
        )
        for day, found in days
        for row in found
    ]
    head = ("framework", "op", "dtype", "#aligned: on Tensor Cores", "#unaligned", "#no matter which")
    return table(head if rows and len(rows[0]) == len(head) else ("recorded", *head), rows)


def _shown_cases(cases: list[Data]) -> Iterator[str]:
    yield from table(
        ("recorded by", "op", "pass", "dtype", "shape", "aligned", "kernel", "foretold"),
        [
            (
                c["source"],
                c["op"],
                c["pass_"],
                c["dtype"],
                c["shape"],
                _yes(c["aligned"]),
                name(c["kernel"]),
                c["foretold"],
            )
            for c in cases[:MOST_SHOWN]
        ],
    )
    yield from _left(cases)


def _left(found: list[Any]) -> Iterator[str]:
    if len(found) > MOST_SHOWN:
        yield f"{len(found) - MOST_SHOWN} more are in summary.json."
        yield ""


def _case(kernel: Data) -> str:
    told = [kernel[part] for part in ("op", "pass_", "dtype", "shape") if kernel[part]]
    return f"{kernel['source']}: {' '.join(told) or kernel['case']}"


def _few(cases: list[str]) -> str:
    return ", ".join(cases[:3]) + (f" and {len(cases) - 3} more" if len(cases) > 3 else "")


def _yes(flag: bool | None) -> str | None:
    return None if flag is None else "yes" if flag else "no"
