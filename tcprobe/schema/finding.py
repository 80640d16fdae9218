"""Findings, fixes and whole audits: what the audit hands to the reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from tcprobe.schema.finding_kinds import FindingKind, FixKind, RelatedKind, WhyKind
from tcprobe.schema.kinds import Evidence
from tcprobe.schema.model import Mode, NotJudged, Unseen
from tcprobe.schema.place import Place
from tcprobe.schema.provenance import Provenance
from tcprobe.schema.statement import Statement

Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
ERROR_PCT: Final = 5.0
WARNING_PCT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Range:
    """A predicted figure: its likely value `mid` and the span that it may lie in, `low <= mid <= high`."""

    low: float
    mid: float
    high: float

    def scaled(self, factor: float) -> Range:
        """Return the range multiplied by `factor`, which must be 0 or more."""
        return Range(self.low * factor, self.mid * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement of source text.

    Attributes:
        place: the text that is replaced; its end is always known.
        before: the text now.
        after: the new text.
    """

    place: Place
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that are made all together or not at all.

    Attributes:
        does: what the edits do.
        edits: in the order of their places; they do not overlap.
        safe: True if the model stays the same; never so for a changed size, as old checkpoints no longer fit.
    """

    does: Statement[FixKind]
    edits: tuple[Edit, ...]
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """What stays of a finding when lines above it come or go.

    The name of the layer is left out: Keras numbers layers, so a new one above would rename them all.
    """

    code: str
    file: str
    layer_class: str | None
    dimension: str | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found.

    Attributes:
        code: code of the rule (``TC101``).
        says: what is wrong, in which passes, and how bad it is on which GPU; severity and place are not repeated.
        place: where in the user's code; None if no line is known.
        severity: None until the audit decides it from the predicted cost.
        layer, layer_class: the layer concerned; None if the finding is not about a layer.
        dimension, size, suggested: the badly sized dimension in Keras' words, its size, and a better size.
        passes: passes that are slower for it (``forward``, ``dgrad``, ``wgrad``).
        dtype: dtype of the products concerned.
        saving_ns: predicted time that the suggestion saves per step; None if unknown or if it is not about time.
        saving_pct: `saving_ns` over the predicted time of the step, 0-100.
        padding_pct: what zeros around its operands at run time would save instead of the products' time, copies
            counted; None if unknown or nothing is to be padded. Where the least is 0 or below, padding may lose.
        why: why it costs nothing, or why its cost is unknown; None if `saving_ns` says it all.
        basis: predicted or calibrated; None if there is no figure.
        constants: whose constants the figure rests on; None if there is no figure.
        evidence: what the time of the product rests on that may take longest of its own; None if there is no figure.
        related: other places that the same size affects, and how each is related.
        fix: edits that make the change; None if tcprobe cannot make it.
    """

    code: str
    says: Statement[FindingKind]
    place: Place | None = None
    severity: Severity | None = None
    layer: str | None = None
    layer_class: str | None = None
    dimension: str | None = None
    size: int | None = None
    suggested: int | None = None
    passes: tuple[str, ...] = ()
    dtype: str | None = None
    saving_ns: Range | None = None
    saving_pct: Range | None = None
    padding_pct: Range | None = None
    why: Statement[WhyKind] | None = None
    basis: str | None = None
    constants: Provenance | None = None
    related: tuple[tuple[Place, Statement[RelatedKind]], ...] = ()
    fix: Fix | None = None
    evidence: Evidence | None = None

    def identity(self, file: str) -> Identity:
        """Return what findings of different audits have in common; `file` is the name that its file goes by."""
        return Identity(self.code, file, self.layer_class, self.dimension, self.size)


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit of one model.

    Attributes:
        label, file, mode: as in `Model`.
        findings: costliest first, without the suppressed and the known ones.
        suppressed: findings that a comment in the source silences.
        known: findings that the baseline holds already.
        step_ns: predicted time of the products of one step; None if none could be predicted.
        total_saving_ns: predicted time that all suggestions together save per step.
        batch, batch_known: samples per step, and whether the model or the user gave that number.
        batch_by_default: whether that number is what Keras' `fit` takes of arrays where it is told none.
        products, costed: products in a step, and how many of them could be predicted.
        layers: number of layers seen.
        gpu, dtype, library, xla: what the prediction is for; dtype is None if each layer keeps its own.
        basis: predicted or calibrated.
        constants: whose constants the figures rest on, that of the costliest products first.
        keras, tensorflow: versions, if known.
        unseen: what could not be judged.
        notes: what limits the audit, as text for people.
        policy_assumed: True if nothing sets a precision policy, so that Keras' default is assumed.
        not_judged: what the audit does not understand, as in `Model`.
        judged: whether the rules looked at a size of any of its layers or products.
    """

    label: str
    file: str
    mode: Mode
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    step_ns: Range | None = None
    total_saving_ns: Range | None = None
    batch: int = 0
    batch_known: bool = False
    products: int = 0
    costed: int = 0
    layers: int = 0
    gpu: str = ""
    dtype: str | None = None
    library: str = ""
    xla: bool = False
    basis: str = "predicted"
    constants: tuple[Provenance, ...] = ()
    keras: str | None = None
    tensorflow: str | None = None
    unseen: tuple[Unseen, ...] = ()
    notes: tuple[str, ...] = ()
    policy_assumed: bool = False
    batch_by_default: bool = False
    known: tuple[Finding, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    judged: bool = False


@dataclass(frozen=True, slots=True)
class Baselined:
    """What a baseline says to an audit.

    Attributes:
        file: absolute path of the baseline.
        gone: findings that it holds and that are found no more in the files that were read.
    """

    file: str
    gone: int = 0


@dataclass(frozen=True, slots=True)
class UnjudgedFile:
    """A file that holds layers, models or products, none of which could be judged.

    Attributes:
        file: absolute path.
        fails: whether the user named the file itself and did not allow this.
    """

    file: str
    fails: bool


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All models audited by one call, in the order of the given files.

    Attributes:
        audited: one per model.
        unused: suppressing comments that silence nothing, with their text.
        failed: files that could not be audited, and why.
        root: absolute path of the repository, else of the working directory.
        baseline: the file of known findings; None where there is none.
        unjudged: files that hold layers of which none could be judged, in the order of the given files.
    """

    audited: tuple[Audited, ...] = ()
    unused: tuple[tuple[Place, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    root: str = field(default="")
    baseline: Baselined | None = None
    unjudged: tuple[UnjudgedFile, ...] = ()

    def findings(self) -> list[Finding]:
        """Return the findings of all models without duplicates: files may share layers."""
        return list(dict.fromkeys(f for audited in self.audited for f in audited.findings))
