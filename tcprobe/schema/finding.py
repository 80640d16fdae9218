"""Findings, fixes and whole audits: what the audit hands to the reports.

Everything an audit can say, as closed lists of kinds; `tcprobe.report.audit.words` turns them into sentences.

The order of a list also orders findings and reasons wherever nothing else does.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct, field

from tcprobe.schema.kinds import Evidence
from tcprobe.schema.model import GpuAsked, Mode, NotJudged, Place, Unseen
from tcprobe.schema.provenance import Provenance
from tcprobe.schema.statement import Statement

FindingKind = Literal[
    # TC101, TC105, TC106; TC102; TC103; TC104; TC107; TC108; TC109
    "not_a_multiple",
    "batch_not_a_multiple",
    "group_not_a_multiple",
    "best_left",
    "off_cudnn",
    "too_small",
    "past_a_tile",
    # TC201
    "probabilities_in_half",
    "last_activation_in_half",
    "output_in_half",
    # TC202
    "scale_divided_alone",
    "pure_float16",
    "loss_never_scaled",
    "gradients_unscaled",
    "step_divided_alone",
    "step_scales_nothing",
    "step_never_scales",
    # TC203
    "wrapped_twice",
    "static_raises",
    "static_may_raise",
    "static_scale",
    "fixed_scale",
    "factor_ignored",
    "factor_fixed",
    "scaled_twice",
    "scaled_by_hand",
    # TC204
    "layer_in_float32",
    "product_in_float32",
    # TC205
    "policy_after_layers",
    # TC206
    "half_slower",
    "half_saves_memory",
    "dtype_without_cores",
    "cores_idle_without_tf32",
    "cores_idle_tf32_off",
    # TC208
    "policy_graph_rewrite",
    "scaled_loss_gone",
    "unscaled_gradients_gone",
    "no_loss_scale_argument",
    "loss_scale_gone",
    "api_gone",
    "api_renamed",
    "api_renamed_without_scale",
    # TC210
    "needless_api",
    "needless_scale",
]
"""What a rule reports."""

WhyKind = Literal[
    "no_gain",
    "depthwise",
    "tiny_product",
    "next_input_sets",
    "joined_data_sets",
    "saved_file_sets",
    "package_sets",
    "reshape_sets",
    "length_sets",
    "feed_sets",
    "labels_set",
    "bound_by_memory",
    "bound_by_launch",
    "as_fast_as_aligned",
    "fits_tf32",
    "cublas10_batch",
    "product_sizes_unknown",
    "dtype_unknown",
    "dtype_without_rate",
    "sequence_unknown",
    "few_time_steps",
    "batch_never_innermost",
    "against_aligned_groups",
    "sizes_unknown",
    "saves_little",
    "plain_float32",
    "float64",
    "no_tensor_cores",
    "no_tensor_cores_for",
    "no_fix",
    "nothing_saved",
    "few_channels_slower",
    "idle_whatever_sizes",
    "cost_unknown",
]
"""Why something costs or saves nothing, why its cost is unknown, or why it has no fix."""

COST_UNKNOWN: Final[frozenset[WhyKind]] = frozenset({"product_sizes_unknown", "dtype_unknown", "dtype_without_rate"})
"""Why the cost of a size is unknown."""
BEST_LEFT: Final[tuple[WhyKind, ...]] = (
    "few_channels_slower",
    "tiny_product",
    "next_input_sets",
    "joined_data_sets",
    "saved_file_sets",
    "package_sets",
    "reshape_sets",
    "length_sets",
    "feed_sets",
    "labels_set",
    "depthwise",
    "fits_tf32",
    "bound_by_memory",
    "bound_by_launch",
    "as_fast_as_aligned",
    "nothing_saved",
)
"""Why a size is best left as it is, with nothing else to say of it."""

InputSize = Literal["shape", "depth", "height", "width", "length", "channels", "rows", "features"]
"""A size of what a layer takes, or all of them (``shape``); ``rows`` are samples and steps of a sequence."""

EffectKind = Literal[
    "slower",
    "off_tensor_cores",
    "slower_by_unknown",
    "leave_filters",
    "wgrad_on_cuda_cores",
]
"""What a bad size does to the products it affects; if it costs nothing, a `WhyKind` is used instead."""

AddedKind = Literal[
    "more_filters",
    "data_sets_it",
    "feed_sets_it",
    "must_fit",
    "padding_may_lose",
    "labels_unused",
    "groups_unpadded",
    "setting",
    "size_changed",
]
"""A remark to add, or one item of a list of remarks."""

RelatedKind = Literal["takes", "puts_out_same", "built_before_policy"]
"""How another place is related to a finding."""

FixKind = Literal[
    "change_sizes",
    "compute_in_float32",
    "activation_split",
    "compute_in_policy",
    "call_renamed",
    "scale_as_keras_3",
]
"""What a fix does."""

LinkReason = Literal[
    "feeder_open",
    "two_sizes",
    "input_unknown",
    "join_unknown",
    "grouped",
    "reshaped",
    "output_unknown",
    "does_not_follow",
    "image_channels",
]
"""Why the values that depend on a size cannot be followed."""

RefusalKind = Literal[
    "not_literal",
    "used_otherwise",
    "set_elsewhere",
    "linked_unknown",
    "not_split",
    "unproven",
]
"""Why a finding has no fix; a `LinkReason` may say so too."""

SAID: Final = (FindingKind, WhyKind, EffectKind, AddedKind, LinkReason, RefusalKind)
"""The kinds of statements, in the order in which those of one place and rule stand."""


Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
ERROR_PCT: Final = 5.0
WARNING_PCT: Final = 1.0
HOST_NS: Final = 1e6
"""Time for which the host is busy with a step of a small model in any case; a judgement."""


class Range(Struct, frozen=True):
    """A predicted figure: its likely value `mid` and the span that it may lie in, `low <= mid <= high`."""

    low: float
    mid: float
    high: float

    def scaled(self, factor: float) -> Range:
        """Return the range multiplied by `factor`, which must be 0 or more."""
        return Range(self.low * factor, self.mid * factor, self.high * factor)


class Edit(Struct, frozen=True):
    """One replacement of source text."""

    place: Place  # the text that is replaced; its end is always known
    before: str  # the text now
    after: str  # the new text


class Fix(Struct, frozen=True):
    """Edits that are made all together or not at all."""

    does: Statement[FixKind]  # what the edits do
    edits: tuple[Edit, ...]  # in the order of their places; they do not overlap
    # True if the model stays the same; never so for a changed size, as old checkpoints no longer fit
    safe: bool = False


class Identity(Struct, frozen=True):
    """What stays of a finding when lines above it come or go.

    The name of the layer is left out: Keras numbers layers, so a new one above would rename them all.
    """

    code: str
    file: str
    layer_class: str | None = None
    dimension: str | None = None
    size: int | None = None


class Finding(Struct, frozen=True):
    """One thing that a rule found."""

    code: str  # code of the rule (``TC101``)
    # what is wrong, in which passes, and how bad it is on which GPU; severity and place are not repeated
    says: Statement[FindingKind]
    place: Place | None = None  # where in the user's code; None if no line is known
    severity: Severity | None = None  # None until the audit decides it from the predicted cost
    # layer, layer_class: the layer concerned; None if the finding is not about a layer.
    layer: str | None = None
    layer_class: str | None = None
    # dimension, size, suggested: the badly sized dimension in Keras' words, its size, and a better size.
    dimension: str | None = None
    size: int | None = None
    suggested: int | None = None
    passes: tuple[str, ...] = ()  # passes that are slower for it (``forward``, ``dgrad``, ``wgrad``)
    dtype: str | None = None  # dtype of the products concerned
    # predicted time that the suggestion saves per step; None if unknown or if it is not about time
    saving_ns: Range | None = None
    saving_pct: Range | None = None  # `saving_ns` over the predicted time of the step, 0-100
    # what zeros around its operands at run time would save instead of the products' time, copies counted; None if
    # unknown or nothing is to be padded. Where the least is 0 or below, padding may lose.
    padding_pct: Range | None = None
    # why it costs nothing, or why its cost is unknown; None if `saving_ns` says it all
    why: Statement[WhyKind] | None = None
    basis: str | None = None  # predicted or calibrated; None if there is no figure
    constants: Provenance | None = None  # whose constants the figure rests on; None if there is no figure
    # other places that the same size affects, and how each is related
    related: tuple[tuple[Place, Statement[RelatedKind]], ...] = ()
    fix: Fix | None = None  # edits that make the change; None if tcprobe cannot make it
    # what the time of the product rests on that may take longest of its own; None if there is no figure
    evidence: Evidence | None = None

    def identity(self, file: str) -> Identity:
        """Return what findings of different audits have in common; `file` is the name that its file goes by."""
        return Identity(self.code, file, self.layer_class, self.dimension, self.size)


class Audited(Struct, frozen=True):
    """The audit of one model."""

    # label, file, mode: as in `Model`.
    label: str
    file: str
    mode: Mode
    findings: tuple[Finding, ...] = ()  # costliest first, without the suppressed and the known ones
    suppressed: tuple[Finding, ...] = ()  # findings that a comment in the source silences
    step_ns: Range | None = None  # predicted time of the products of one step; None if none could be predicted
    total_saving_ns: Range | None = None  # predicted time that all suggestions together save per step
    # batch, batch_known: samples per step, and whether the model or the user gave that number.
    batch: int = 0
    batch_known: bool = False
    batch_varies: bool = False  # whether a step is the mean of some of unlike batch: that number is the commonest
    # products, costed: products in a step, and how many of them could be predicted.
    products: int = 0
    costed: int = 0
    layers: int = 0  # number of layers seen
    # gpu, dtype, library, xla: what the prediction is for; dtype is None if each layer keeps its own.
    gpu: str = ""
    dtype: str | None = None
    library: str = ""
    tf32_off: bool = False  # whether the code forbids that float32 runs as TF32, and no dtype was asked for
    xla: bool = False
    # whether that is what Keras 3 decides of itself on a GPU, where neither the code nor an option says otherwise
    xla_by_default: bool = False
    basis: str = "predicted"  # predicted or calibrated
    constants: tuple[Provenance, ...] = ()  # whose constants the figures rest on, that of the costliest products first
    # keras, tensorflow: versions, if known.
    keras: str | None = None
    tensorflow: str | None = None
    unseen: tuple[Unseen, ...] = ()  # what could not be judged
    notes: tuple[str, ...] = ()  # what limits the audit, as text for people
    policy_assumed: bool = False  # True if nothing sets a precision policy, so that Keras' default is assumed
    batch_by_default: bool = False  # whether that number is what Keras' `fit` takes of arrays where it is told none
    known: tuple[Finding, ...] = ()  # findings that the baseline holds already
    not_judged: tuple[NotJudged, ...] = ()  # what the audit does not understand, as in `Model`
    gpu_asked: tuple[GpuAsked, ...] = ()  # where the code asks for a GPU and was told of one, as in `Model`
    steps: int = 1  # steps that its file trains apart, or would train; shares are of one's own
    judged: bool = False  # whether the rules looked at a size of any of its layers or products
    is_short: bool = False  # whether the GPU is likely done with a step before the host has launched the next


class Baselined(Struct, frozen=True):
    """What a baseline says to an audit."""

    file: str  # absolute path of the baseline
    gone: int = 0  # findings that it holds and that are found no more in the files that were read


class UnjudgedFile(Struct, frozen=True):
    """A file that holds layers, models or products, none of which could be judged."""

    file: str  # absolute path
    fails: bool  # whether the user named the file itself and did not allow this


class AuditReport(Struct, frozen=True):
    """All models audited by one call, in the order of the given files."""

    audited: tuple[Audited, ...] = ()  # one per model
    unused: tuple[tuple[Place, str], ...] = ()  # suppressing comments that silence nothing, with their text
    failed: tuple[tuple[str, str], ...] = ()  # files that could not be audited, and why
    root: str = field(default="")  # absolute path of the repository, else of the working directory
    baseline: Baselined | None = None  # the file of known findings; None where there is none
    # files that hold layers of which none could be judged, in the order of the given files
    unjudged: tuple[UnjudgedFile, ...] = ()

    def findings(self) -> list[Finding]:
        """Return the findings of all models without duplicates: files may share layers."""
        return list(dict.fromkeys(f for audited in self.audited for f in audited.findings))
