"""What a rule found, and a whole audit: what passes from the audit to the reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from tcprobe.schema.finding_kinds import FindingKind, FixKind, RelatedKind, WhyKind
from tcprobe.schema.model import Mode, Unseen
from tcprobe.schema.place import Place
from tcprobe.schema.statement import Statement

Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
ERROR_PCT: Final = 5.0
WARNING_PCT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Range:
    """A predicted figure: its likely value and the span that it may lie in, `low <= mid <= high`."""

    low: float
    mid: float
    high: float

    def scaled(self, factor: float) -> Range:
        """Return the range times a factor of 0 or more."""
        return Range(self.low * factor, self.mid * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement of source text.

    Attributes:
        place: what is replaced; its end is always known.
        before: the text there now.
        after: the text to put there.
    """

    place: Place
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together: all of them are made, or none.

    Attributes:
        does: what they do.
        edits: in the order of their places, not overlapping.
        safe: whether the model stays the same; a size never does (checkpoints no longer fit).
    """

    does: Statement[FixKind]
    edits: tuple[Edit, ...]
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found.

    Attributes:
        code: of the rule (``TC101``).
        says: what, which passes, how bad on which GPU; without severity and place.
        place: where in the user's code; None where no line is known.
        severity: None until the audit has decided it from the predicted cost.
        layer, layer_class: what it concerns; None for what is no layer.
        dimension, size, suggested: the badly sized dimension in Keras' words, as it is, and as it should be.
        passes: passes that it slows down (``forward``, ``dgrad``, ``wgrad``).
        dtype: of the products that it concerns.
        saving_ns: predicted time a step that the suggestion saves; None where it is not a matter of time, or unknown.
        saving_pct: `saving_ns` over the predicted step, 0-100.
        why: why it costs nothing, or why the cost is not known; None where `saving_ns` says it all.
        basis: predicted, calibrated; None where no figure is given.
        related: other places that the same size touches, each with what it has to do with it.
        fix: edits that make it so; None where tcprobe cannot.
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
    why: Statement[WhyKind] | None = None
    basis: str | None = None
    related: tuple[tuple[Place, Statement[RelatedKind]], ...] = ()
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """One model, audited.

    Attributes:
        label, file, mode: of the model.
        findings: costliest first; suppressed ones are not among them.
        suppressed: findings that a comment in the source silenced.
        step_ns: predicted time of one step's products; None where none could be predicted.
        total_saving_ns: predicted time a step that all suggestions together save.
        batch, batch_known: samples of that step, and whether the model or the user said so.
        products, costed: products of the step, and how many of them could be predicted.
        layers: layers seen.
        gpu, dtype, library, xla: what the prediction is for; dtype None where the model's own.
        basis: predicted or calibrated.
        keras, tensorflow: versions, where known.
        unseen: what could not be judged.
        notes: what limits the audit, as text for people.
        policy_assumed: whether Keras' default precision is assumed, as nothing sets one.
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
    keras: str | None = None
    tensorflow: str | None = None
    unseen: tuple[Unseen, ...] = ()
    notes: tuple[str, ...] = ()
    policy_assumed: bool = False


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All models of one call, in the order of the files given.

    Attributes:
        audited: one per model.
        unused: suppressing comments that silence nothing, with their text.
        failed: files that could not be audited, with the reason; the others were.
    """

    audited: tuple[Audited, ...] = ()
    unused: tuple[tuple[Place, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    root: str = field(default="")

    def findings(self) -> list[Finding]:
        """Return the findings of all models, each once: files may share layers."""
        return list(dict.fromkeys(f for audited in self.audited for f in audited.findings))
