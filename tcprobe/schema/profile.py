"""`Profile`: what readers return, and what the analysis takes and returns.

`metadata` says where the figures come from, `tables` holds what is there, `absent` says why the rest is missing.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.schema.advice import Advice
from tcprobe.schema.columns import FloatArray, Row, Table
from tcprobe.schema.kinds import NoWhatIf, WindowBasis
from tcprobe.schema.screen import FirstScreen, Prediction
from tcprobe.schema.tables import TABLES
from tcprobe.schema.timeline import Timeline
from tcprobe.schema.waits import StartUp, Tuning, Waiting
from tcprobe.schema.whatif import WhatIf

NoteLevel = Literal["note", "warning", "error"]
Trait = Literal["key_node", "serialises_kernels", "shows_xla", "figures_only"]
"""What readers declare of a source. `key_node`: its steps end where an op of the step does, and the start-up of the
process counts to step 0. `serialises_kernels`: each kernel ran by itself, so that times of steps mean nothing.
`shows_xla`: its host ops hold the instructions that XLA made, with types in lower case. `figures_only`:
what it does not tell was left out."""


class Note(Struct, frozen=True):
    """Something that the reader of a report must know."""

    code: str  # stable identifier in kebab-case (``one-step-only``)
    message: str  # one sentence
    remedy: str | None = None  # what to do about it; None if nothing can be done
    level: NoteLevel = "warning"  # note (for information), warning (affects a figure) or error (a figure is missing)


class Window(Struct, frozen=True):
    """The iterations that are counted, first and last included."""

    # first, last: iteration numbers; None if there are no iterations.
    first: int | None = None
    last: int | None = None
    # start_ns, end_ns: bounds on the profile's clock; None if unknown.
    start_ns: int | None = None
    end_ns: int | None = None
    basis: WindowBasis = "whole capture"  # how the window was chosen

    @property
    def length_ns(self) -> int | None:
        """Return how long it is; None if a bound is unknown."""
        return None if self.start_ns is None or self.end_ns is None else self.end_ns - self.start_ns


class ProfileSource(Struct, frozen=True):
    """One source of a report: what a reader found there, and what was used of it."""

    format: str  # name of the reader
    paths: tuple[str, ...] = ()  # files read, as the user would name them
    tables: tuple[str, ...] = ()  # tables used as a whole
    # columns that it filled in tables of another source, by table
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # tables that were not used -> why
    unread: str | None = None  # why nothing of it was read; None if it was read


class HalfOutput(Struct, frozen=True):
    """A layer that gives probabilities in 16 bits as an output of the model."""

    layer: str  # path of the layer
    layer_class: str = ""
    activation: str = ""  # softmax or sigmoid
    dtype: str = ""  # float16 or bfloat16
    source: str | None = None  # file:line where it was constructed


class LossScale(Struct, frozen=True):
    """How an optimizer that updates weights scales the loss."""

    kind: Literal["dynamic", "fixed", "none"]  # none: not the optimizer; the script may scale by itself
    value: float | None = None  # of a fixed scale, or where a dynamic one begins; None if unknown
    optimizer: str | None = None  # its name, which is the scope of its ops


GradientLoss = Literal["gone", "subnormal", "infinite", "zero"]
"""What becomes of values in float16: 0 though they were not, fewer digits, infinite or NaN; `zero`: 0 anyway."""
NeedKind = Literal[
    "lost",  # float16 loses much at the scale that is used, or without one
    "coarse",  # it makes much subnormal there
    "overflows",  # gradients are infinite there
    "holds",  # it would lose much, or make it subnormal, without the scale that is used
    "no_need",  # it loses little without one
    "unseen",  # what a float16 run without one lost is gone
]


class LossScaleNeed(Struct, frozen=True):
    """Whether float16 needs a scaled loss, by the gradients of weights that were counted."""

    kind: NeedKind
    what: GradientLoss  # decides
    layer: str  # has most of that
    pct: float  # of its values: at the scale used, where that keeps them without one; at least, of a float16 run
    scale: float  # that was used, the mean over updates; 1.0: none
    half: bool  # whether the run computed in float16, so that what it lost is among its zeros
    gone_pct: float  # of a layer's values, the most that is lost at that scale; of a float16 run what is 0: at most
    subnormal_pct: float  # likewise, the most that is subnormal
    better: float | None  # power of 4 that loses next to nothing and overflows nothing; None if none, or unknown
    better_gone_pct: float | None  # of a layer's values other than 0, the most that it loses
    better_subnormal_pct: float | None  # likewise, that it makes subnormal, at most
    updates: int  # that were counted
    looked_pct: float  # of the gradients' values, those that were looked at


class Policy(Struct, frozen=True):
    """The precision that Keras computes in, as the probe saw it at the end of a run."""

    name: str | None = None  # the global policy; None if unknown
    set_by: Literal["script", "tcprobe"] | None = None  # None where it is Keras' default, or unknown
    layers: dict[str, int] = field(default_factory=dict)  # number of layers with weights that steps call, by policy
    graph_rewrite: bool = False  # whether TensorFlow's graph rewrite to 16 bits is on (auto_mixed_precision)
    outputs: tuple[HalfOutput, ...] = ()  # probabilities in 16 bits
    loss_scales: tuple[LossScale, ...] = ()  # those of the optimizers, each once
    # who has XLA cluster every function (environment: TF_XLA_FLAGS, before the script ran); None where nobody does
    clustered_by: Literal["script", "tcprobe", "environment"] | None = None
    tf32_off: bool = False  # whether float32 may not run as TF32, whoever forbids it

    @property
    def loss_scale(self) -> LossScale | None:
        """That of all optimizers; None if unknown, or if they differ."""
        several = len({(one.kind, one.value) for one in self.loss_scales}) != 1
        return None if several else self.loss_scales[0]

    @property
    def of_script(self) -> str | None:
        """The policy that the script set; None where it set none, or set others for its layers alone."""
        return self.name if self.set_by == "script" else None


class Metadata(Struct, frozen=True):
    """Where a profile comes from."""

    format: str  # name of the reader (``xplane``, ``dlprof_csv``)
    paths: tuple[str, ...] = ()  # files read, as the user would name them
    profiler: str | None = None  # tool and version that recorded it, as far as the file says
    framework: str | None = None  # such as ``tensorflow 2.21.0``, if known
    host: str | None = None  # machine that ran it
    rank: int | None = None  # rank of the process in a distributed run, if known
    command: tuple[str, ...] = ()  # the workload's command line
    precision: str | None = None  # requested precision (float32, tf32, mixed_float16, mixed_bfloat16), if known
    policy: Policy | None = None  # what the script computes in by Keras' policies; None if nothing tells
    xla: bool | None = None  # whether XLA compiled the step, if known
    target_gpu: str | None = None  # id in gpus.csv of the GPU for which blockers are judged if none ran
    gpu_used: bool | None = None  # whether the workload used a GPU, if known; False means a CPU run
    partial: bool = False  # True if the run was cut off
    window: Window = field(default_factory=Window)  # the iterations that are counted
    notes: tuple[Note, ...] = ()  # what the reader of the report must know
    run: dict[str, Any] = field(default_factory=dict)  # run.json of a run folder, as read; empty for a bare file
    sources: tuple[ProfileSource, ...] = ()  # what the path held, richest first, including what could not be read

    @property
    def computes_in(self) -> str | None:
        """The precision that was set: by the script, else as requested; None where nobody set one."""
        return (self.policy.of_script if self.policy is not None else None) or self.precision

    def source_of(self, table: str, column: str) -> str | None:
        """Return the format from which a column of a recorded table was read; None if no source names it."""
        filled = (s.format for s in self.sources if column in s.columns.get(table, ()))
        return next(filled, next((s.format for s in self.sources if table in s.tables), None))


class OffTensorCores(Struct, frozen=True):
    """Ops that run off the Tensor Cores, and what each costs: kernel time, else the FLOPs of the graph's ops."""

    table: Table  # the rows of `ops` (else of `gemms`) that something keeps off the Tensor Cores, costliest first
    weight: FloatArray  # cost of each row, all in the same unit
    total: float  # what shares are taken of, in the same unit
    measured: bool  # True if weights are ns of kernel time, False if they are FLOPs
    # True if these are of what is known of a step: some ops run more often, or nobody knows how often
    bounded: bool = False


class Profile(Struct, frozen=True):
    """One profile: metadata and tables."""

    metadata: Metadata  # see `Metadata`
    # by name; each follows its contract in `tcprobe.schema.tables.TABLES`
    tables: dict[str, Table] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # name of a missing table -> why it is missing
    traits: frozenset[Trait] = frozenset()  # of the richest source
    # ops that run off the Tensor Cores; None if there are none or the profile is not analysed yet
    off: OffTensorCores | None = None
    # how long a step takes and the GPU waits in it; None if no clock of the profile tells
    waiting: Waiting | None = None
    loss_scale_need: LossScaleNeed | None = None  # None where no gradient was counted
    tuning: Tuning | None = None  # the autotuning that the window holds; None if none was seen
    start_up: StartUp | None = None  # what was cut off at the beginning; None if nothing was
    # changes and the steps predicted with them, largest gain first, all together last
    what_ifs: tuple[WhatIf, ...] = ()
    no_what_if: NoWhatIf | None = None  # why there are none of these
    advice: tuple[Advice, ...] = ()  # what to do, most important first; the table of that name has a row for each
    predicted: Prediction | None = None  # what a run without a GPU would take on one; None if too little is known
    screen: FirstScreen | None = None  # what a report answers first; None if the profile is not analysed yet
    timeline: Timeline | None = None  # what ran when; None if nobody asked for it, or nothing has a time

    def table(self, name: str) -> Table | None:
        """Return the table; None if it is absent.

        Raises:
            KeyError: the contract has no such table.
        """
        if name not in TABLES:
            raise KeyError(f"no table {name}; there are {', '.join(TABLES)}")
        return self.tables.get(name)

    def require(self, name: str) -> Table:
        """Return the table; an empty one if it is absent."""
        found = self.table(name)
        return Table(TABLES[name], {c.name: [] for c in TABLES[name].columns}) if found is None else found

    def figure(self, metric: str) -> Row | None:
        """Return the row of `summary` for a metric; None if there is none."""
        return next((row for row in self.require("summary").rows() if row["metric"] == metric), None)

    def value(self, metric: str) -> float | None:
        """Return the value of a metric of `summary`; None if it is not there or not known."""
        row = self.figure(metric)
        return None if row is None or row["value"] is None else float(row["value"])

    @property
    def is_unprofiled(self) -> bool:
        """Whether it is a run folder for which no profiler recorded anything: its iterations are the probe's steps."""
        recorded = (name for name in self.tables if TABLES[name].capture and name != "step_marks")
        bare = self.metadata.format == "run_folder" and "figures_only" not in self.traits
        return bare and not any(recorded) and "kernels" not in self.tables

    @property
    def marked_steps(self) -> int | None:
        """Return how many steps the window holds; None if the source marks none."""
        table = self.require("iterations")
        return int(table.numbers("steps")[table.numbers("in_window")].sum()) or None if len(table) else None

    @property
    def counted_steps(self) -> int | None:
        """Return how many steps the counted kernels are of; None if kernels of no step may be among them."""
        return None if self.metadata.window.first is None else self.marked_steps

    @property
    def summed_steps(self) -> float | None:
        """Return how many steps the sums over the window are of; None where kernels of no step may be among them."""
        if self.metadata.window.first is not None:
            return self.counted_steps
        captured = self.waiting is not None and self.waiting.length == "capture"
        return None if captured else self.value("iterations_in_window") or None

    @property
    def kernel_steps(self) -> float | None:
        """Return how many steps the kernel times are of; the whole capture is one where it stands for a step.

        None where that is not known, and where autotuning, which is no part of a step, is among them.
        """
        if self.tuning is not None:
            return None
        return 1.0 if self.waiting and self.waiting.length == "capture" else self.summed_steps

    @property
    def active_gpus(self) -> list[Row]:
        """Return the rows of `devices` of the GPUs that ran kernels."""
        return [row for row in self.require("devices").rows() if row["state"] == "active"]

    @property
    def busiest_gpu(self) -> tuple[int, float]:
        """Return how many GPUs are known to have run kernels, at least 1, and the share of their time on the busiest.

        That is 1 where it is not known which ran what.
        """
        spent = [float(row["sum_ns"]) for row in self.active_gpus if row["sum_ns"]]
        return len(spent) or 1, max(spent) / sum(spent) if spent else 1.0

    def with_tables(self, *tables: Table) -> Profile:
        """Return a copy with `tables` added, replacing those of the same name."""
        added = {t.spec.name: t for t in tables}
        absent = {name: why for name, why in self.absent.items() if name not in added}
        return replace(self, tables={**self.tables, **added}, absent=absent)

    def with_absent(self, **reasons: str) -> Profile:
        """Return a copy that gives the reasons why these tables are missing, as far as they are."""
        missing = {name: why for name, why in reasons.items() if name not in self.tables}
        return replace(self, absent={**self.absent, **missing})

    def with_notes(self, *notes: Note) -> Profile:
        """Return a copy with `notes` added."""
        return replace(self, metadata=replace(self.metadata, notes=(*self.metadata.notes, *notes)))

    def with_metadata(self, **changed: Any) -> Profile:
        """Return a copy with these metadata fields replaced."""
        return replace(self, metadata=replace(self.metadata, **changed))
