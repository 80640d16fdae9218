"""Wording that all reports of an audit share: places, sentences of findings, figures, counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from tcprobe.hardware import lookup_gpu
from tcprobe.report.audit import unjudged
from tcprobe.report.audit.phrases import statements
from tcprobe.report.audit.phrases.order import order
from tcprobe.report.formatting import about, relative
from tcprobe.report.provenance import constants_of
from tcprobe.rules.sizes.words import listed
from tcprobe.schema.finding import SEVERITIES, WARNING_PCT, Audited, AuditReport, Finding, Fix
from tcprobe.schema.place import Place
from tcprobe.schema.provenance import merged
from tcprobe.schema.statement import parts

LIBRARY_NAMES: Final = {"cublas10": "cuBLAS 10", "cublas11": "cuBLAS 11", "cublas12": "cuBLAS 12"}
ASSUMED: Final = "no precision policy is set in this file: Keras' default, float32, is assumed"
UNMEASURED: Final = "Estimated: nobody has published what unaligned sizes cost a convolution."
COUNTED: Final = "A step counts its matrix products and convolutions only, with their launches."
MOST_FILES: Final = 4
"""Files named with what limits them; of more, the first and how many more."""
ModelFinding = tuple[Audited, Finding]


def location_text(place: Place | None, file: str, base: str) -> str:
    """Return ``path:line:column``, ``path:cell 3:line:column`` in a notebook; the path alone if no line is known."""
    if place is None:
        return relative(file, base)
    return f"{relative(place.file, base)}:{place.position}:{place.column}"


def placed(place: Place) -> dict[str, int | None]:
    """Return lines and columns of a place as programs get them: lines are those of `cell` in a notebook."""
    cell, end = place.in_cell, place.end_line
    line, above = (place.line, 0) if cell is None else (cell.line, place.line - cell.line)
    return {
        "line": line,
        "column": place.column,
        "end_line": None if end is None else end - above,
        "end_column": place.end_column,
        "cell": None if cell is None else cell.cell,
    }


def reason(path: str, text: str) -> str:
    """Return why a file could not be audited, without repeating its path."""
    return text.removeprefix(f"{path}: ")


def rows(report: AuditReport) -> list[ModelFinding]:
    """Return every finding once, with its model, ordered by file and line."""
    found: dict[Finding, Audited] = {}
    for audited in report.audited:
        for finding in audited.findings:
            found.setdefault(finding, audited)
    return sorted(((audited, finding) for finding, audited in found.items()), key=_order)


def silenced(report: AuditReport) -> list[ModelFinding]:
    """Return every suppressed finding once, with its model, ordered by file and line."""
    found: dict[Finding, Audited] = {}
    for audited in report.audited:
        for finding in audited.suppressed:
            found.setdefault(finding, audited)
    return sorted(((audited, finding) for finding, audited in found.items()), key=_order)


def known(report: AuditReport) -> list[ModelFinding]:
    """Return every finding that the baseline holds already, once, with its model, ordered by file and line."""
    found: dict[Finding, Audited] = {}
    for audited in report.audited:
        for finding in audited.known:
            found.setdefault(finding, audited)
    return sorted(((audited, finding) for finding, audited in found.items()), key=_order)


def message(finding: Finding) -> str:
    """Return a finding's message: one sentence without severity and place."""
    return statements.sentence_of(finding.says)


def why(finding: Finding) -> str | None:
    """Return why a finding costs nothing or why its cost is unknown; None if its saving says it all."""
    return None if finding.why is None else statements.sentence_of(finding.why)


def message_with_reason(finding: Finding) -> str:
    """Return a finding's message, followed by its reason unless the message includes it."""
    return f"{message(finding)}{_because(finding)}"


def _because(finding: Finding) -> str:
    said, known = finding.why, parts(finding.says)
    if said is None or said in known:
        return ""
    if said.get("beside") in known:  # why there is no fix, beside a reason that is told already
        said = said.changed("beside", None)
    return f"; {statements.sentence_of(said)}"


def fixing(fix: Fix) -> str:
    """Return what a fix does, as an imperative (``change units 63 to 64``)."""
    return statements.sentence_of(fix.does)


def related(finding: Finding) -> list[tuple[Place, str]]:
    """Return the other places that a finding affects, each with a phrase."""
    return [(place, statements.sentence_of(said)) for place, said in finding.related]


def _order(row: ModelFinding) -> tuple[str, int, int, str, tuple[str, ...]]:
    audited, finding = row
    place = finding.place or Place(audited.file, 0, 0)
    return place.file, place.line, place.column, finding.code, order(finding.says)


def costliest(found: Iterable[ModelFinding], most: int) -> list[ModelFinding]:
    """Return the findings whose suggestions save most, costliest first, without those that have no figure."""
    costed = [(row[1].saving_ns.mid, row) for row in found if row[1].saving_ns is not None]
    ranked = sorted(((ns, row) for ns, row in costed if ns > 0), key=lambda pair: (-pair[0], _order(pair[1])))
    return [row for _, row in ranked[:most]]


def finding_line(audited: Audited, finding: Finding, count: int = 1) -> str:
    """Return the finding as one line: what, how severe, how bad in which passes, what a change saves or why nothing.

    With a `count` above 1 it stands for that many layers, and its saving is their sum.

    ``Conv2D 'conv2d_1' filters=31 is not a multiple of 8 (warning, 3 % of the step): forward ...; 32 saves ...``
    """
    what, rest = statements.halves(finding.says)
    text = f"{what} ({', '.join(_judged(audited, finding, count))}){f': {rest}' if rest else ''}"
    if saved := saving_per_step(audited, finding):
        text += f"; {suggestion(finding)} saves {saved}"
    return f"{text}{_because(finding)}"


def whole(audited: Audited) -> str:
    """Return what percentages refer to: the step, or the part of it that could be predicted."""
    return "the step" if audited.costed >= audited.products else "the predicted part of the step"


def _judged(audited: Audited, finding: Finding, count: int) -> list[str]:
    pct = finding.saving_pct
    together = " together" if count > 1 else ""
    share = "" if pct is None or pct.mid <= 0 else f"{floor_percent(pct.mid)} of {whole(audited)}{together}"
    most = f"up to {floor_percent(pct.high)}" if share and pct and pct.mid < WARNING_PCT <= pct.high else ""
    return [said for said in (finding.severity or "unknown severity", share, most) if said]


def suggestion(finding: Finding) -> str:
    """Return the suggestion in a word: the size or the remedy."""
    return "mending it" if finding.suggested is None else str(finding.suggested)


def change(finding: Finding) -> str:
    """Return ``filters 31 -> 32``, or the subject of a finding that is not about a size."""
    if finding.suggested is None or finding.size is None:
        return finding.dimension or ""
    return f"{finding.dimension or 'size'} {finding.size} -> {finding.suggested}"


def per(audited: Audited) -> str:
    """Return what predicted times refer to: a step, or a number of samples if the batch size is unknown."""
    return "a step" if audited.batch_known else f"per {audited.batch:,} samples"


def saving_per_step(audited: Audited, finding: Finding) -> str:
    """Return ``0.4-0.6 ms a step``; empty if no saving is predicted."""
    if finding.saving_ns is None or finding.saving_ns.high <= 0:
        return ""
    return f"{about(finding.saving_ns)} {per(audited)}"


def floor_percent(value: float) -> str:
    """Round 0-100 down, so that a figure never prints as the threshold above it."""
    if 0 < value < 0.1:
        return "<0.1 %"
    return f"{math.floor(value * 10 + 1e-9) / 10:g} %" if value < 10 else f"{math.floor(value)} %"


def total_gain(audited: Audited) -> str | None:
    """Return what all suggestions for a model save together; None if no saving is predicted."""
    saved, step = audited.total_saving_ns, audited.step_ns
    if saved is None or step is None or saved.high <= 0 or step.mid <= 0:
        return None
    share = floor_percent(100 * saved.mid / step.mid)
    return f"all suggestions together save {about(saved)} of {about(step)} {per(audited)}: {share}"


def gains(report: AuditReport, most: int | None) -> list[str]:
    """Return what the suggestions save per model, most first; after `most` models, only how many more there are."""
    saving = [(a.total_saving_ns.mid, a, said) for a in report.audited if a.total_saving_ns and (said := total_gain(a))]
    ranked = sorted(saving, key=lambda row: (-row[0], row[1].file, row[1].label))
    shown = [f"{a.label}: {said}." for _, a, said in ranked[:most]]
    left = len(ranked) - len(shown)
    return shown + ([f"{left:,} more model{' saves' if left == 1 else 's save'} less each."] if left else [])


def predicted_for(report: AuditReport) -> list[str]:
    """Return one sentence on the target and limits of the predictions; all models share a target.

    Nothing for what holds nothing that could be judged: there is no prediction.
    """
    models: dict[tuple[str, str | None, str, str], list[Audited]] = {}
    blind = {one.file for one in report.unjudged}
    for a in (a for a in report.audited if a.file not in blind):
        models.setdefault((a.gpu, a.dtype, a.library, a.basis), []).append(a)
    return [_prediction(made) for made in models.values()]


def _prediction(models: list[Audited]) -> str:
    first = models[0]
    gpu = lookup_gpu(first.gpu)
    given = [
        gpu.name if gpu else first.gpu,
        first.dtype or f"the model's own dtypes{_tf32(models)}",
        LIBRARY_NAMES.get(first.library, first.library),
        _either({a.xla for a in models}, "with XLA", "without XLA", "with XLA where a model is compiled"),
        _batches(models),
        _either({a.mode == "traced" for a in models}, "traced shapes", "shapes read from the source", "shapes by file"),
    ]
    basis = "Calibrated" if first.basis == "calibrated" else "Predicted"
    said = f"{basis} for {', '.join(g for g in given if g)}. {_constants(models)}{COUNTED}"
    guessed = any(part.get("estimated") for a in models for f in a.findings for part in parts(f.says))
    return f"{said} {UNMEASURED}" if guessed else said


def _constants(models: list[Audited]) -> str:
    """Return whose constants the figures of all models rest on, a sentence each."""
    found = merged(one for a in models for one in a.constants)
    return "".join(f"{'It rests' if one == found[0] else 'Some of it rests'} on {constants_of(one)}. " for one in found)


def _tf32(models: list[Audited]) -> str:
    """Return what float32 runs as, if a finding is in float32 and the GPU has TF32."""
    gpu = lookup_gpu(models[0].gpu)
    meant = gpu is not None and gpu.peak_flop_per_s("tf32") is not None
    return " (float32 as TF32)" if meant and any(f.dtype == "float32" for a in models for f in a.findings) else ""


def _either(found: set[bool], yes: str, no: str, both: str) -> str:
    return both if len(found) > 1 else yes if found == {True} else no


def _batches(models: list[Audited]) -> str:
    known = {a.batch for a in models if a.batch_known}
    unknown = {a.batch for a in models if not a.batch_known}
    by_default = any(a.batch_by_default for a in models)
    origin = " (fit's default for arrays; --batch-size sets another)" if by_default and len(known) == 1 else ""
    said = [f"batch {min(known):,}{origin}" if len(known) == 1 else "each model's own batch"] if known else []
    if unknown:
        hint = "where it is unknown (--batch-size sets it)" if known else "(batch unknown; --batch-size sets it)"
        said.append(f"per {min(unknown):,} samples {hint}")
    return ", ".join(said)


def uncosted(report: AuditReport) -> str | None:
    """Return how many products could not be predicted and why; None if all could."""
    products = sum(a.products for a in report.audited)
    missing = products - sum(a.costed for a in report.audited)
    because = "sizes that are not all known, or a dtype that the GPU lacks"
    return f"{missing:,} of {products:,} products have no predicted time: {because}." if missing else None


def limit_notes(report: AuditReport) -> list[str]:
    """Return what limits the audits, one sentence each without duplicates; with ``--dtype`` no policy is assumed.

    What limits some of several files names them.
    """
    said: dict[str, dict[str, None]] = {}
    for audited in report.audited:
        for note in limits(audited) if audited.dtype is None else audited.notes:
            said.setdefault(note, {})[audited.file] = None
    several = len({audited.file for audited in report.audited}) > 1
    return [_limit(note, list(files) if several and note != ASSUMED else []) for note, files in said.items() if note]


def _limit(note: str, files: list[str]) -> str:
    names = [PurePath(file).name for file in files]
    if len(names) > MOST_FILES:
        names = [*names[: MOST_FILES - 1], f"{len(names) - MOST_FILES + 1:,} more"]
    text = f"{listed(names)}: {note}" if names else f"{note[0].upper()}{note[1:]}"
    return text if text.endswith(".") else f"{text}."


def limits(audited: Audited) -> tuple[str, ...]:
    """Return what limits one audit, as it was found."""
    return (ASSUMED, *audited.notes) if audited.policy_assumed else audited.notes


def tally(report: AuditReport) -> str:
    """Return the number of findings by severity, or that there are none."""
    found = [finding for _, finding in rows(report)]
    counts = Counter(f.severity for f in found)
    parts = [f"{counts[s]:,} {s}{'' if counts[s] == 1 else 's'}" for s in SEVERITIES if counts[s]]
    ungraded = sum(1 for f in found if f.severity is None)
    if ungraded:
        parts.append(f"{ungraded:,} of unknown severity")
    hidden = _hidden(report)
    new = " new" if known(report) else ""
    seen = f"nothing{new}{_looked_at(report)}{_but(report)}"
    failed = f"; {len(report.failed):,} file{' was' if len(report.failed) == 1 else 's were'} not audited"
    return f"Found {', '.join(parts) or seen}{hidden}{failed if report.failed else ''}."


def _hidden(report: AuditReport) -> str:
    """Return how many findings are not told, in brackets; empty if none."""
    suppressed, old = len(silenced(report)), len(known(report))
    told = [f"{suppressed:,} suppressed"] if suppressed else []
    told += [f"{old:,} known in {PurePath(report.baseline.file).name}"] if report.baseline and old else []
    return f" ({', '.join(told)})" if told else ""


def gone(report: AuditReport) -> str | None:
    """Return how many findings of the baseline are found no more; None if all are."""
    if report.baseline is None or not report.baseline.gone:
        return None
    count, of = report.baseline.gone, f"of {PurePath(report.baseline.file).name}"
    said = f"1 finding {of} is gone" if count == 1 else f"{count:,} findings {of} are gone"
    return f"{said}: --write-baseline drops {'it' if count == 1 else 'them'}."


def _looked_at(report: AuditReport) -> str:
    """Return in how many layers nothing was found; empty where none could be judged."""
    layers = sum(a.layers for a in report.audited)
    products = sum(a.products for a in report.audited)
    if layers or products:
        return f" in {_many(layers, 'layer')}" if layers else f" in {_many(products, 'product')}"
    return "" if _but(report) else ": no layer of a model"


def _but(report: AuditReport) -> str:
    """Return how many things could not be judged; empty where all could."""
    blind = sum(count for _, count in unjudged.unseen(report)) + unjudged.count(report)
    return f", but {_many(blind, 'thing')} could not be judged" if blind else ""


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def fixable(report: AuditReport) -> str:
    """Return how many findings `--fix` can correct and how many of these change the model; empty if none."""
    return "--fix".join(around_fix(report))


def around_fix(report: AuditReport) -> tuple[str, ...]:
    """Return the parts of `fixable` before and after ``--fix``."""
    fixes = [finding.fix for _, finding in rows(report) if finding.fix is not None]
    unsafe = sum(1 for fix in fixes if not fix.safe)
    if not fixes:
        return ()
    many = "" if unsafe == len(fixes) else f"{unsafe:,} of them "
    verb = "change" if many and unsafe > 1 else "changes"
    remark = f" ({many}{verb} the model: checkpoints no longer fit)" if unsafe else ""
    return f"{len(fixes):,} fixable with ", f"{remark}."
