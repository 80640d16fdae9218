"""A search for a key node: the document of candidates, what only seems to be one and what to type next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from tcprobe.formatting import many
from tcprobe.masking import mask_words
from tcprobe.report.document import (
    Block,
    Cell,
    DataTable,
    Facts,
    Heading,
    LeftOut,
    Lines,
    Remark,
    Remarks,
    ReportSpec,
    Section,
    Style,
    TextPart,
    data_of,
    line_of,
)
from tcprobe.report.fields import Field, cell_of, field_of, name_of, number_of, section, sentence_of, time_of
from tcprobe.schema.columns import Row
from tcprobe.schema.key_nodes import Cadence, Candidate, Flaw, KeyNodes, Merit, StepsBasis, WhyNone

OTHERS: Final = 5
MERITS: Final[Mapping[Merit, str]] = {
    "at_end": "near the end of the step",
    "optimizer_sum": "adds in the optimizer, as its counter does",
    "update": "updates weights",
    "counter": "counts up",
}
FLAWS: Final[Mapping[Flaw, str]] = {
    "one_replica": "of one replica alone",
    "loop_body": "in the body of a loop",
    "conditional": "in a conditional: may not run in each step",
    "xla_cluster": "in an XLA cluster, whose name may change",
    "runtime": "added by the runtime, may go with its optimisations",
    "cut": "one call more or less than there are steps: the recording is cut within a step",
    "early": "early in the step: what follows counts to the next",
    "no_gpu_time": "no GPU time",
    "uneven": "comes unevenly",
}
CADENCES: Final[Mapping[Cadence, str]] = {
    "per_step": "once in each step",
    "several_per_step": "{} times in each step",
    "per_epoch": "once in {} steps",
    "irregular": "irregularly",
}
BASES: Final[Mapping[StepsBasis, str]] = {
    "marks": "as the profile marks them",
    "probe": "as the probe counted them",
    "calls": "by the number of calls alone",
}
AGAIN: Final = "record a run of 20 steps or more, with the ops that it calls"
NONE: Final[Mapping[WhyNone, tuple[str, str]]] = {
    "no_calls": (
        "no key node: the profile says of no op of a framework and of no range how often it ran",
        "give a profile that does: DLProf's detail report (--reports=detail), *.xplane.pb with host ops, or NVTX "
        "ranges recorded by Nsight Systems",
    ),
    "few_steps": ("no key node: the profile holds {}, and only several tell what fires once in each", AGAIN),
    "numbered_ranges": (
        "no key node: most ranges have a number in their names, so that each fires once",
        r"if the numbers are those of steps: tcprobe report PATH --step-range '^NAME (\d+)'",
    ),
    "nothing_regular": (
        "no key node: there is no number of calls that most ops share, so nothing is known to fire once in each step",
        "record only training, after the warm-up (--delay, --duration), or mark the steps with a range",
    ),
}
"""Message and remedy."""
ENDS_AT: Final = "Ends at: 0 % is where a step begins, 100 % where the last of these ends."
SELDOM: Final = (
    "What fires once in several steps does so in each epoch, or after the gradients of so many are accumulated."
)
UNSURE: Final = (
    "that this fires once in each step follows from its count of calls alone: no time and no mark of a step confirms it"
)
UNSURE_REMEDY: Final = "compare the iterations that DLProf finds with it to the steps that you ran"


class KeyNodeDocument(Struct, frozen=True):
    """What a search found, as a `tcprobe.report.document.Document`."""

    found: KeyNodes  # with a candidate
    path: str  # the profile that was searched
    words: tuple[str, ...] = ()  # the workload that was run for it; empty where a profile was given
    spec: ReportSpec = ReportSpec()

    def screen(self) -> list[Block]:
        """Return steps, candidates, what is none, and as the last line what to type."""
        return [*self._blocks(), LeftOut("--width 0 or --format csv shows all"), self._next("plain")]

    def page(self) -> list[Block]:
        """Return the same under a title."""
        return [Heading("Key node", 1), *self._blocks(), self._next("code")]

    def data(self) -> dict[str, Any]:
        """Return all as raw values; kinds are words of closed lists."""
        found = self.found
        rows = zip(self._rows(), self._ranked(), strict=True)
        trees = [{**row, "merits": list(one.merits), "flaws": list(one.flaws)} for row, (one, _) in rows]
        return data_of(
            {
                "path": self.path,
                "format": found.format,
                "steps": found.steps,
                "steps_basis": found.basis,
                "ops_that_agree": found.agreeing,
                "ops_weighed": found.among,
                "candidates": [tree for tree in trees if tree["rank"] is not None],
                "not_once_per_step": [tree for tree in trees if tree["rank"] is None],
                "next": next_command(found, self.words, self.path),
            }
        )

    def tables(self) -> list[DataTable]:
        """Return the one table."""
        return [self.table()]

    def table(self) -> DataTable:
        """Return candidates, best first, then what fires more or less often, which has no rank."""
        rows = self._rows()
        return DataTable("key_nodes", tuple(rows[0]), lambda: [tuple(row.values()) for row in rows])

    def _ranked(self) -> list[tuple[Candidate, int | None]]:
        found, limit = self.found, self.spec.rows_for_programs
        ranked = [(one, rank) for rank, one in enumerate(found.candidates[:limit], 1)]
        return [*ranked, *((one, None) for one in found.others[:limit])]

    def _rows(self) -> list[Row]:
        return [self._row(*one) for one in self._ranked()]

    def _row(self, one: Candidate, rank: int | None) -> Row:
        fired, found = one.fired, self.found
        return {
            "rank": rank,
            "key": fired.key,
            "kind": fired.what,
            **{name: getattr(fired, name) for name in ("op_id", "name", "op_type", "domain")},
            "cadence": one.cadence,
            "every": one.every,
            "calls": fired.calls,
            "steps": found.steps,
            "steps_basis": found.basis,
            "seen_in_each_step": one.seen,
            "position_pct": None if one.position is None else one.position * 100,
            "gap_cv": one.gap_cv,
            "gpu_ns": fired.gpu_ns,
            "merits": " ".join(one.merits),
            "flaws": " ".join(one.flaws),
        }

    def _blocks(self) -> list[Block]:
        found, best = self.found, self.found.best
        shown = "none" if best is None else best.fired.key
        what = "step range" if best is not None and best.fired.what == "range" else "key node"
        facts = Facts((("profile", self.path), ("steps", steps_of(found)), (what, shown)))
        unsure = best is not None and not best.seen and found.basis == "calls"
        remarks = Remarks((Remark("note", UNSURE, UNSURE_REMEDY),)) if unsure else None
        return [block for block in (facts, self._candidates(), self._others(), remarks) if block]

    def _candidates(self) -> Section | None:
        found = self.found
        shown = found.candidates[: self.spec.rows_for_people]
        ranks = {id(one): rank for rank, one in enumerate(shown, 1)}
        timed, gpu = any(one.position is not None for one in shown), any(one.fired.gpu_ns is not None for one in shown)
        fields = (
            number_of("#", lambda one: ranks[id(one)]),
            *_ops("Range" if _of_ranges(shown) else "Op Name", shown),
            *([cell_of("Ends at", _ends_at, 1, right=True)] if timed else []),
            *([time_of("GPU time", lambda one: one.fired.gpu_ns, 2)] if gpu else []),
            sentence_of("Why", lambda one: reasons(one, found.basis), 1),
        )
        title = f"Once in each step ({len(shown):,} of {len(found.candidates):,})"
        return section(title, fields, shown, (ENDS_AT,) if timed else ())

    def _others(self) -> Section | None:
        others = self.found.others
        shown = others[: OTHERS if self.spec.top is None else self.spec.rows_for_people]
        fields = (*_ops("Name", shown), cell_of("Fires", _fires, wraps=True))
        notes = (SELDOM,) if any(one.cadence == "per_epoch" for one in shown) else ()
        title = f"No key nodes: not once in each step ({len(shown):,} of {len(others):,})"
        return section(title, fields, shown, notes)

    def _next(self, style: Style) -> Lines:
        return Lines((line_of("Next: ", TextPart(next_command(self.found, self.words, self.path), style)),))


def _ops(name: str, shown: Sequence[Candidate]) -> list[Field]:
    """Return the fields of what is called."""
    ids = [field_of("Op ID", lambda one: one.fired.op_id)] if any(one.fired.op_id for one in shown) else []
    return [
        *ids,
        name_of(name, lambda one: one.fired.name),
        field_of("Type", lambda one: one.fired.op_type, 2),
        number_of("Calls", lambda one: one.fired.calls),
    ]


def _ends_at(one: Candidate) -> Cell:
    return Cell("-" if one.position is None else f"{one.position * 100:.0f} %", one.position)


def why_none(found: KeyNodes) -> tuple[str, str]:
    """Return why there is no key node, and what to do about it."""
    message, remedy = NONE[found.why_none or "nothing_regular"]
    few = many(found.steps, "step") if found.steps else "one step or two"
    return message.format(few), remedy


def steps_of(found: KeyNodes) -> str:
    """Return how many steps there are, what says so, and how many ops agree."""
    timed = any(c.fired.gpu_ns for c in (*found.candidates, *found.others))
    what = "ranges" if _of_ranges(found.candidates) else "ops with GPU time" if timed else "ops"
    basis = BASES[found.basis or "calls"]
    return f"{found.steps:,}, {basis}; {found.agreeing:,} of {found.among:,} {what} ran so often"


def _of_ranges(candidates: Sequence[Candidate]) -> bool:
    return all(one.fired.what == "range" for one in candidates)


def reasons(candidate: Candidate, basis: StepsBasis | None) -> str:
    """Return how it shows that a candidate is one, and what speaks for it and against it."""
    shows = "by its calls alone" if basis == "calls" else "as many calls as steps"
    said = [*(MERITS[m] for m in candidate.merits), *(FLAWS[f] for f in candidate.flaws)]
    return "; ".join(["seen once in each step" if candidate.seen else shows, *said])


def _fires(one: Candidate) -> str:
    """Return how often something fires."""
    return CADENCES[one.cadence].format(f"{one.every:,}")


def chosen_because(found: KeyNodes) -> str:
    """Return in one line why the best candidate was chosen."""
    best = found.best
    return "" if best is None else f"{best.fired.calls:,} calls in {found.steps:,} steps; {reasons(best, found.basis)}"


def next_command(found: KeyNodes, words: Sequence[str], path: str) -> str:
    """Return what to type with the best candidate.

    Args:
        found: with a candidate.
        words: the workload; empty where a profile was given.
        path: the profile that was searched.
    """
    best = found.best
    if best is None:
        return ""
    if best.fired.what == "range":
        exactly = f"^{re.escape(best.fired.name)}$"
        return f"tcprobe report {shlex.quote(path)} --step-range {shlex.quote(exactly)}"
    workload = shlex.join(mask_words(words)) if words else "WORKLOAD"
    return f"tcprobe profile --profiler dlprof --key-node {shlex.quote(best.fired.key)} {workload}"
