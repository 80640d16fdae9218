"""With every sentence replaced by a random token, nothing but the sentences changes."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from tcprobe.flows.audit.flow import audit
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.report.audit import screen, words
from tcprobe.report.audit.document import next_step
from tcprobe.report.document import ReportSpec
from tcprobe.schema import finding
from tcprobe.schema.finding import AuditReport, Finding
from tcprobe.schema.statement import Both, Statement, say
from tests.report.audit.builders import COSTLY, MILD, ROOT, SPEC, audited, document, report, slower
from tests.report.audit.test_fold import layers, notes
from tests.report.builders import rendered
from tests.support import ROOT as HOUSE

FILES = sorted([*(HOUSE / "tests/styles").glob("*.py"), *(HOUSE / "tests/rules/golden").glob("*.py")])
CHOICES: Sequence[dict[str, Any]] = ({}, {"dtype": "float16", "batch_size": 100}, {"library": "cublas10"})
WORDS = {"message", "why", "text", "fix"}


@pytest.fixture
def scrambled(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes every sentence from then on a token that no other one has, not even of the same statement."""

    def token(**_: object) -> Both:
        return Both(f"{uuid.uuid4()} saves", f"(estimated) {uuid.uuid4()}")

    def scramble() -> None:
        for kind in words.SAYS:
            monkeypatch.setitem(words.SAYS, kind, token)  # type: ignore[arg-type]

    return scramble


def told(report_: AuditReport, spec: ReportSpec) -> list[object]:
    """Return all that reports decide of an audit, without a word of it."""
    found = screen.folded(words.rows(report_))
    groups = screen.by_reason([f for f in found if screen.is_note(f)])
    return [
        [unworded(f) for _, f in words.rows(report_)],
        [(unworded(f.finding), f.count) for f in found],
        [(g.file, g.lines, g.code, g.sizes, g.count) for g in groups],
        [unworded(f) for _, f in words.costliest([(f.audited, f.finding) for f in found], 5)],
        [sorted(part.partition(":")[0] for part in words.gains(report_, 5)), words.tally(report_)],
        [words.fixable(report_), words.predicted_for(report_), words.limit_notes(report_), next_step(report_, ())],
        *(list(shown(report_, spec))),
    ]


def unworded(finding: Finding) -> object:
    """Return a finding with the kinds of what it says, which is as much as figures and order may hang on."""
    said = finding.says
    return said.kind, said.fields, finding.why, replace(finding, fix=None), finding.fix and finding.fix.edits


def shown(report_: AuditReport, spec: ReportSpec) -> Iterator[object]:
    """Yield what each format shows, its sentences left out."""
    plain = [rendered(format_, document(report_, spec)) for format_ in ("csv", "json", "sarif")]
    yield [{k: v for k, v in row.items() if k not in WORDS} for row in csv.DictReader(io.StringIO(plain[0]))]
    yield wordless(json.loads(plain[1]))
    yield wordless(json.loads(plain[2]))
    for verbose in (False, True):
        lines = rendered("text", document(report_, replace(spec, verbose=verbose))).splitlines()
        yield [line if not re.match(r"\S+: (suppressed: )?TC\d", line) else line.split(" ")[:2] for line in lines]
    yield [row.split(" | ")[:3] for row in rendered("markdown", document(report_, spec)).splitlines()]


def wordless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: wordless(v) for k, v in value.items() if k not in WORDS}
    return [wordless(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_no_audit_hangs_on_a_sentence(choice: dict[str, Any], scrambled: Callable[[], None]) -> None:
    def audits() -> list[object]:
        options = AuditOptions(tuple(map(str, FILES)), mode="source", **choice)
        outcome = audit(options, lambda _: None)
        return [outcome.exit_code, *told(outcome.report, replace(SPEC, cwd=str(HOUSE)))]

    before = audits()
    scrambled()
    assert audits() == before


def folding() -> AuditReport:
    """Return layers of one line that do not all say the same, notes told by reasons, an estimate and a shared layer."""
    first, *rest = layers(3)
    odd = replace(first, says=first.says.changed("effect", slower("forward", "wgrad")))
    guess = replace(MILD, says=MILD.says.changed("effect", slower("forward").changed("estimated", True)))
    reasons = [replace(n, why=why) for n, why in zip(notes(12), REASONS * 4, strict=True)]
    found = (odd, *rest, guess, *reasons)
    return AuditReport((audited(found), replace(audited((*found, COSTLY)), label="twin")), root=ROOT)


REASONS: Sequence[Statement[finding.WhyKind]] = (
    *(say("bound_by_launch"), say("bound_by_memory")),
    say("nothing_saved", suggested=64),
)


@pytest.mark.parametrize("made", [report, folding])
def test_no_report_hangs_on_a_sentence(made: Callable[[], AuditReport], scrambled: Callable[[], None]) -> None:
    before = told(made(), SPEC)
    scrambled()
    assert told(made(), SPEC) == before


def test_every_sentence_is_replaced(scrambled: Callable[[], None]) -> None:
    scrambled()
    assert words.message(COSTLY) != words.message(COSTLY)
    assert "35-45" not in rendered("text", document(report()))


def test_every_kind_has_one_sentence() -> None:
    lists = [getattr(finding, name) for name in vars(finding) if name.endswith(("Kind", "Reason"))]
    kinds = [kind for listed in lists for kind in get_args(listed)]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == set(words.SAYS)
