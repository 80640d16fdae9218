"""Wording that all reports of an audit share: sentences of findings and fixes, places, figures, counts.

Statements that share place and rule are ordered by kind and fields, never by words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final, get_args

from tcprobe.formatting import about, many, relative
from tcprobe.hardware import lookup_gpu
from tcprobe.report import sentences
from tcprobe.report.audit import unjudged
from tcprobe.report.sentences import constants_of
from tcprobe.rules.base import Says
from tcprobe.rules.says import SAYS as RULES_SAY
from tcprobe.rules.words import listed
from tcprobe.schema.finding import (
    SAID,
    SEVERITIES,
    WARNING_PCT,
    Audited,
    AuditReport,
    Finding,
    Fix,
)
from tcprobe.schema.model import Place
from tcprobe.schema.provenance import merged
from tcprobe.schema.statement import About, FieldValue, Statement, parts

LIBRARY_NAMES: Final = {"cublas10": "cuBLAS 10", "cublas11": "cuBLAS 11", "cublas12": "cuBLAS 12"}
ASSUMED: Final = "no precision policy is set in this file: Keras' default, float32, is assumed"
ON_A_GPU: Final = (
    "where the code asks for a GPU (%s), the answer is that of the machine it is predicted for: there is one"
)
BY_DEFAULT: Final = "as Keras 3 compiles of itself on a GPU; --no-xla predicts without"
UNMEASURED: Final = "Estimated: nobody has published what unaligned sizes cost a convolution."
COUNTED: Final = "A step counts its matrix products and convolutions only, with their launches."
MOST_FILES: Final = 4
"""Files named with what limits them; of more, the first and how many more."""
ModelFinding = tuple[Audited, Finding]

_RANKS: Final = {kind: f"{rank:03}" for rank, kind in enumerate(kind for kinds in SAID for kind in get_args(kinds))}
SAYS: Final[Says] = {
    **RULES_SAY,
    "not_literal": lambda argument: (
        f"{argument} is neither a number in the layer's own call nor a name that the file assigns once"
    ),
    "used_otherwise": lambda number: f"{number} stands for something else in the file as well",
    "set_elsewhere": "the size is no layer's to choose",
    "linked_unknown": lambda layer: f"what '{layer}' makes of another size is unknown",
    "not_split": "where a layer behind it would stand is unknown, or the code takes layers by number or name",
    "unproven": "the edited file could not be shown to make the same models",
    "saves_little": lambda pct: f"mending it saves less than {pct:g} % of the step each",
    "no_fix": lambda beside, reason: f"{f'{beside}; ' if beside else ''}no fix: {reason}",
    "change_sizes": lambda others, last: (
        f"change {', '.join(others)} and {last} together" if others else f"change {last}"
    ),
    "size_changed": lambda argument, old, new: f"{argument} {old} to {new}",
}


def sentence_of(said: Statement[str]) -> str:
    """Return a statement as a sentence, or as the part of a sentence that its kind stands for."""
    return sentences.sentence_of(SAYS, said)


def halves(said: Statement[str]) -> tuple[str, str]:
    """Return what a statement says, and separately how bad it is or what helps, if it says so."""
    return sentences.halves(SAYS, said.kind, dict(said.fields))


def order(said: FieldValue) -> tuple[str, ...]:
    """Return the sort key of a statement: its subject, its kind's place in the closed list, its other fields."""
    match said:
        case Statement():
            about = said.get("subject")
            rest = (part for name, value in said.fields if name != "subject" for part in order(value))
            return (*order(about), _RANKS.get(said.kind, said.kind), *rest)
        case About():
            # A subject that stands for several layers comes before one that names only the first of them.
            more = f"a{said.more}" if said.more else "b"
            return said.class_name, said.name, more, said.dimension or "", *order(said.size)
        case tuple():
            return tuple(part for value in said for part in order(value))
        case None:
            return ("",)
        case _:
            return (str(said),)


def natural(text: str) -> tuple[tuple[str, int, str], ...]:
    """Return a key that sorts ``dense_2`` before ``dense_10``, however long a name's digits are."""
    parts = re.findall(r"(\D*)0*(\d*)", text)
    return tuple((letters, len(digits), digits) for letters, digits in parts)


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


def rows(report: AuditReport, state: str = "findings") -> list[ModelFinding]:
    """Return every finding once, with its model, by file and line; or those ``suppressed``, or ``known``."""
    found: dict[Finding, Audited] = {}
    for audited in report.audited:
        for finding in getattr(audited, state):
            found.setdefault(finding, audited)
    return sorted(((audited, finding) for finding, audited in found.items()), key=_order)


def message(finding: Finding) -> str:
    """Return a finding's message: one sentence without severity and place."""
    return sentence_of(finding.says)


def why(finding: Finding) -> str | None:
    """Return why a finding costs nothing or why its cost is unknown; None if its saving says it all."""
    return None if finding.why is None else sentence_of(finding.why)


def message_with_reason(finding: Finding) -> str:
    """Return a finding's message, followed by its reason unless the message includes it."""
    return f"{message(finding)}{_because(finding)}"


def _because(finding: Finding) -> str:
    said, known = finding.why, parts(finding.says)
    if said is None or said in known:
        return ""
    if said.get("beside") in known:  # why there is no fix, beside a reason that is told already
        said = said.changed("beside", None)
    return f"; {sentence_of(said)}"


def fixing(fix: Fix) -> str:
    """Return what a fix does, as an imperative (``change units 63 to 64``)."""
    return sentence_of(fix.does)


def related(finding: Finding) -> list[tuple[Place, str]]:
    """Return the other places that a finding affects, each with a phrase."""
    return [(place, sentence_of(said)) for place, said in finding.related]


def _order(row: ModelFinding) -> tuple[str, int, int, str, tuple[str, ...]]:
    audited, finding = row
    place = finding.place or Place(audited.file, 0, 0)
    return place.file, place.line, place.column, finding.code, order(finding.says)


def costliest(found: Iterable[ModelFinding], most: int) -> list[ModelFinding]:
    """Return the findings whose suggestions save most, costliest first, without those that have no figure."""
    saving = [row for row in found if _saved(row) > 0]
    return sorted(saving, key=lambda row: (-_saved(row), _order(row)))[:most]


def _saved(row: ModelFinding) -> float:
    saved = row[1].saving_ns
    return saved.mid if saved else 0.0


def finding_line(audited: Audited, finding: Finding, count: int = 1) -> str:
    """Return the finding as one line: what, how severe, how bad in which passes, what a change saves or why nothing.

    With a `count` above 1 it stands for that many layers, and its saving is their sum.

    ``Conv2D 'conv2d_1' filters=31 is not a multiple of 8 (warning, 3 % of the step): forward ...; 32 saves ...``
    """
    what, rest = halves(finding.says)
    text = f"{what} ({', '.join(_judged(audited, finding, count))}){f': {rest}' if rest else ''}"
    if saved := saving_per_step(audited, finding):
        text += f"; {suggestion(finding)} saves {saved}"
    return f"{text}{_because(finding)}"


def whole(audited: Audited) -> str:
    """Return what percentages refer to: the step, or the part of it that could be predicted."""
    step = "the step" if audited.steps == 1 else "its step"
    return step if audited.costed >= audited.products else f"the predicted part of {step}"


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
    return "a step" if audited.batch_known or audited.batch_varies else f"per {audited.batch:,} samples"


def saving_per_step(audited: Audited, finding: Finding) -> str:
    """Return ``0.4-0.6 ms a step``; empty if no saving is predicted."""
    if finding.saving_ns is None or finding.saving_ns.mid <= 0:
        return ""
    return f"{about(finding.saving_ns)} {per(audited)}"


def floor_percent(value: float) -> str:
    """Round 0-100 down, so that a figure never prints as the threshold above it."""
    if 0 < value < 0.1:
        return "<0.1 %"
    return f"{math.floor(value * 10 + 1e-9) / 10:g} %" if value < 10 else f"{math.floor(value)} %"


HIDDEN: Final = "So short a step hardly shows it: the host takes longer"  # what sizes cost, where `Audited.is_short`


def gains(report: AuditReport, most: int | None) -> list[str]:
    """Return what the suggestions save per model, most first; after `most` models, only how many more there are."""
    saving = [(a.total_saving_ns.mid, a, said) for a in report.audited if a.total_saving_ns and (said := _gain(a))]
    ranked = sorted(saving, key=lambda row: (-row[0], row[1].file, row[1].label))
    left = len(ranked[most:]) if most is not None else 0
    more = [f"{many(left, 'more model')} {'saves' if left == 1 else 'save'} less each."] if left else []
    return [f"{a.label}: {said}." for _, a, said in ranked[:most]] + more


def _gain(audited: Audited) -> str | None:
    """Return what all suggestions for a model save together; None if no saving is predicted."""
    saved, step = audited.total_saving_ns, audited.step_ns
    if saved is None or step is None or saved.mid <= 0 or step.mid <= 0:
        return None
    if 2 * audited.costed < audited.products:  # what the rest of the step takes is not known
        return f"all suggestions together save {about(saved)} {per(audited)}"
    share = floor_percent(100 * saved.mid / step.mid)
    hidden = f". {HIDDEN}" if audited.is_short else ""
    return f"all suggestions together save {about(saved)} of {about(step)} {per(audited)}: {share}{hidden}"


def predicted_for(report: AuditReport) -> list[str]:
    """Return one sentence on the target and limits of the predictions; all models share a target.

    Nothing for what holds nothing that could be judged: there is no prediction.
    """
    models: dict[tuple[str, str | None, str, str, bool], list[Audited]] = {}
    blind = {one.file for one in report.unjudged}
    for a in report.audited:
        if a.file not in blind:
            models.setdefault((a.gpu, a.dtype, a.library, a.basis, a.tf32_off), []).append(a)
    return [_prediction(made) for made in models.values()]


def _prediction(models: list[Audited]) -> str:
    first = models[0]
    findings = [finding for audited in models for finding in audited.findings]
    gpu = lookup_gpu(first.gpu)
    has_tf32 = gpu is not None and gpu.peak_flop_per_s("tf32") is not None
    asks = has_tf32 and any(f.dtype == "float32" for f in findings)
    how = "without TF32, which the code turns off" if first.tf32_off else "as TF32"
    given = [
        gpu.name if gpu else first.gpu,
        first.dtype or f"the model's own dtypes{f' (float32 {how})' if asks else ''}",
        LIBRARY_NAMES.get(first.library, first.library),
        _xla(models),
        _batches(models),
        _either({a.mode == "traced" for a in models}, "traced shapes", "shapes read from the source", "shapes by file"),
    ]
    whose = [constants_of(one) for one in merged(one for a in models for one in a.constants)]
    said = [
        f"{'Calibrated' if first.basis == 'calibrated' else 'Predicted'} for {', '.join(g for g in given if g)}.",
        *(f"{'Some of it rests' if n else 'It rests'} on {constants}." for n, constants in enumerate(whose)),
        COUNTED,
    ]
    if any(part.get("estimated") for finding in findings for part in parts(finding.says)):
        said.append(UNMEASURED)
    return " ".join(said)


def _xla(models: list[Audited]) -> str:
    """Return whether the predictions are with XLA, and that Keras decides so where nothing else does."""
    said = _either({a.xla for a in models}, "with XLA", "without XLA", "with XLA where a model is compiled")
    return f"{said} ({BY_DEFAULT})" if any(a.xla and a.xla_by_default for a in models) else said


def _either(found: set[bool], yes: str, no: str, both: str) -> str:
    return both if len(found) > 1 else yes if found == {True} else no


def _batches(models: list[Audited]) -> str:
    known = {a.batch for a in models if a.batch_known}
    unknown = {a.batch for a in models if not (a.batch_known or a.batch_varies)}
    by_default = any(a.batch_by_default for a in models)
    origin = " (fit's default for arrays; --batch-size sets another)" if by_default and len(known) == 1 else ""
    said = [f"batch {min(known):,}{origin}" if len(known) == 1 else "each model's own batch"] if known else []
    if any(a.batch_varies for a in models):
        said.append("batches that change from step to step")
    if unknown:
        hint = "where it is unknown (--batch-size sets it)" if known else "(batch unknown; --batch-size sets it)"
        said.append(f"per {min(unknown):,} samples {hint}")
    return ", ".join(said)


def steps(report: AuditReport) -> list[str]:
    """Return how many steps files hold that train apart, and that shares are of one's own; nothing where none does."""
    several = {a.file: a for a in report.audited if a.steps > 1}
    if not several:
        return []
    own = "each share is of the finding's own step"
    if len(several) > 1:
        count = sum(a.steps for a in several.values())
        return [f"{len(several):,} files hold {count:,} steps, which train apart: {own}."]
    (file,) = several
    labels = [a.label for a in report.audited if a.file == file and a.products]
    lines = [label.rpartition(":")[2] for label in labels]
    told = len(lines) <= MOST_FILES and all(line.isdigit() for line in lines)
    at = f" (lines {listed(lines)})" if told else ""
    return [f"{PurePath(file).name} holds {len(labels):,} steps, which train apart{at}: {own}."]


def uncosted(report: AuditReport) -> list[str]:
    """Return how many products could not be predicted and why; nothing if all could."""
    products = sum(a.products for a in report.audited)
    missing = products - sum(a.costed for a in report.audited)
    because = "sizes that are not all known, or a dtype that the GPU lacks"
    return [f"{missing:,} of {products:,} products have no predicted time: {because}."] if missing else []


def limit_notes(report: AuditReport) -> list[str]:
    """Return what limits the audits, one sentence each without duplicates; with ``--dtype`` no policy is assumed.

    What limits some of several files names them.
    """
    files: dict[str, dict[str, None]] = {}
    for audited in report.audited:
        for note in limits(audited):
            if note != ASSUMED or audited.dtype is None:
                files.setdefault(note, {})[audited.file] = None
    several = len({audited.file for audited in report.audited}) > 1
    return [_limit(note, list(of) if several and note != ASSUMED else []) for note, of in files.items() if note]


def _limit(note: str, files: list[str]) -> str:
    names = [PurePath(file).name for file in files]
    if len(names) > MOST_FILES:
        names = [*names[: MOST_FILES - 1], f"{len(names) - MOST_FILES + 1:,} more"]
    text = f"{listed(names)}: {note}" if names else f"{note[0].upper()}{note[1:]}"
    return f"{text.removesuffix('.')}."


def limits(audited: Audited) -> tuple[str, ...]:
    """Return what limits one audit, as it was found."""
    assumed = [ASSUMED] if audited.policy_assumed else []
    return (*assumed, *_gpu_asked(audited), *audited.notes)


def _gpu_asked(audited: Audited) -> list[str]:
    """Return that the code asks for a GPU and was told of one; nothing where it does not."""
    if not audited.gpu_asked:
        return []
    first = audited.gpu_asked[0]
    where = ""
    if (place := first.place) is not None:
        own = "" if place.in_cell is not None else "line "
        where = f", {own if place.file == audited.file else f'{PurePath(place.file).name}:'}{place.position}"
    return [ON_A_GPU % f"{first.call}{where}"]


def tally(report: AuditReport) -> str:
    """Return the number of findings by severity, or that there are none."""
    counts = Counter(finding.severity for _, finding in rows(report))
    graded = [many(counts[severity], severity) for severity in SEVERITIES if counts[severity]]
    graded += [f"{counts[None]:,} of unknown severity"] if counts[None] else []
    suppressed, old = len(rows(report, "suppressed")), len(rows(report, "known"))
    hidden = [f"{suppressed:,} suppressed"] if suppressed else []
    hidden += [f"{old:,} known in {PurePath(report.baseline.file).name}"] if report.baseline and old else []
    text = f"Found {', '.join(graded) or 'nothing' + ' new' * bool(old) + _looked_at(report)}"
    text += f" ({', '.join(hidden)})" if hidden else ""
    if failed := len(report.failed):
        text += f"; {many(failed, 'file')} {'was' if failed == 1 else 'were'} not audited"
    return f"{text}."


def _looked_at(report: AuditReport) -> str:
    """Return in how many layers nothing was found, and how many things could not be judged."""
    layers, products = (sum(getattr(a, name) for a in report.audited) for name in ("layers", "products"))
    blind = sum(count for _, count in unjudged.unseen(report)) + unjudged.count(report)
    but = f", but {many(blind, 'thing')} could not be judged" if blind else ""
    if (count := unjudged.layers(report)) is not None:
        but = f"; {many(count, 'layer')} not judged"
    if layers or products:
        return f" in {many(layers, 'layer') if layers else many(products, 'product')}{but}"
    return but or ": no layer of a model"


def gone(report: AuditReport) -> list[str]:
    """Return how many findings of the baseline are found no more; nothing if all are."""
    if report.baseline is None or not report.baseline.gone:
        return []
    count = report.baseline.gone
    verb, them = ("is", "it") if count == 1 else ("are", "them")
    of = f"of {PurePath(report.baseline.file).name}"
    return [f"{many(count, 'finding')} {of} {verb} gone: --write-baseline drops {them}."]


def fixable(report: AuditReport) -> str:
    """Return how many findings `--fix` can correct and how many of these change the model; empty if none."""
    return "--fix".join(around_fix(report))


def around_fix(report: AuditReport) -> tuple[str, ...]:
    """Return the parts of `fixable` before and after ``--fix``."""
    fixes = [finding.fix for _, finding in rows(report) if finding.fix is not None]
    unsafe = sum(not fix.safe for fix in fixes)
    if not fixes:
        return ()
    of_them = "" if unsafe == len(fixes) else f"{unsafe:,} of them "
    verb = "change" if of_them and unsafe > 1 else "changes"
    remark = f" ({of_them}{verb} the model: checkpoints no longer fit)" if unsafe else ""
    return f"{len(fixes):,} fixable with ", f"{remark}."
