"""`Profile`: what readers return, and what the analysis takes and returns.

`metadata` says where the figures come from, `tables` holds what is there, `absent` says why the rest is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tcprobe.schema.advice import Advice
from tcprobe.schema.changes.whatif import WhatIf
from tcprobe.schema.columns import FloatArray, Row, Table
from tcprobe.schema.kinds import WindowBasis
from tcprobe.schema.tables import TABLES
from tcprobe.schema.waits import Tuning, Waiting

NoteLevel = Literal["note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the reader of a report must know.

    Attributes:
        code: stable identifier in kebab-case (``one-step-only``).
        message: one sentence.
        remedy: what to do about it; None if nothing can be done.
        level: note (for information), warning (affects a figure) or error (a figure is missing).
    """

    code: str
    message: str
    remedy: str | None = None
    level: NoteLevel = "warning"


@dataclass(frozen=True, slots=True)
class Window:
    """The iterations that are counted, first and last included.

    Attributes:
        first, last: iteration numbers; None if there are no iterations.
        start_ns, end_ns: bounds on the profile's clock; None if unknown.
        basis: how the window was chosen.
    """

    first: int | None = None
    last: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    basis: WindowBasis = "whole capture"

    @property
    def length_ns(self) -> int | None:
        """Return how long it is; None if a bound is unknown."""
        return None if self.start_ns is None or self.end_ns is None else self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """One source of a report: what a reader found there, and what was used of it.

    Attributes:
        format: name of the reader.
        paths: files read, as the user would name them.
        tables: tables used as a whole.
        columns: columns that it filled in tables of another source, by table.
        left_out: tables that were not used -> why.
        unread: why nothing of it was read; None if it was read.
    """

    format: str
    paths: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where a profile comes from.

    Attributes:
        format: name of the reader (``xplane``, ``dlprof_csv``).
        paths: files read, as the user would name them.
        profiler: tool and version that recorded it, as far as the file says.
        framework: such as ``tensorflow 2.21.0``, if known.
        host: machine that ran it.
        rank: rank of the process in a distributed run, if known.
        command: the workload's command line.
        precision: requested precision (float32, tf32, mixed_float16, mixed_bfloat16), if known.
        xla: whether XLA compiled the step, if known.
        target_gpu: id in gpus.csv of the GPU for which blockers are judged if none ran.
        gpu_used: whether the workload used a GPU, if known; False means a CPU run.
        partial: True if the run was cut off.
        window: the iterations that are counted.
        notes: what the reader of the report must know.
        run: run.json of a run folder, as read; empty for a bare file.
        sources: what the path held, richest first, including what could not be read.
    """

    format: str
    paths: tuple[str, ...] = ()
    profiler: str | None = None
    framework: str | None = None
    host: str | None = None
    rank: int | None = None
    command: tuple[str, ...] = ()
    precision: str | None = None
    xla: bool | None = None
    target_gpu: str | None = None
    gpu_used: bool | None = None
    partial: bool = False
    window: Window = field(default_factory=Window)
    notes: tuple[Note, ...] = ()
    run: dict[str, Any] = field(default_factory=dict)
    sources: tuple[ProfileSource, ...] = ()

    def source_of(self, table: str, column: str) -> str | None:
        """Return the format from which a column of a recorded table was read; None if no source names it."""
        filled = (s.format for s in self.sources if column in s.columns.get(table, ()))
        return next(filled, next((s.format for s in self.sources if table in s.tables), None))


@dataclass(frozen=True, slots=True)
class OffTensorCores:
    """Ops that run off the Tensor Cores, and what each costs: measured kernel time, else the FLOPs of the graph's ops.

    Attributes:
        table: the rows of `ops` (else of `gemms`) that something keeps off the Tensor Cores, costliest first.
        weight: cost of each row, all in the same unit.
        total: what shares are taken of, in the same unit.
        measured: True if weights are ns of kernel time, False if they are FLOPs.
        bounded: True if these are of what is known of a step: some ops run more often, or nobody knows how often.
    """

    table: Table
    weight: FloatArray
    total: float
    measured: bool
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile: metadata and tables.

    Attributes:
        metadata: see `Metadata`.
        tables: by name; each follows its contract in `tcprobe.schema.tables.TABLES`.
        absent: name of a missing table -> why it is missing.
        off: ops that run off the Tensor Cores; None if there are none or the profile is not analysed yet.
        waiting: how long a step takes and the GPU waits in it; None if no clock of the profile tells.
        tuning: the autotuning that the window holds; None if none was seen.
        what_ifs: changes and the steps predicted with them, largest gain first, all together last.
        advice: what to do, most important first; the table of that name has a row for each.
    """

    metadata: Metadata
    tables: dict[str, Table] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    off: OffTensorCores | None = None
    waiting: Waiting | None = None
    tuning: Tuning | None = None
    what_ifs: tuple[WhatIf, ...] = ()
    advice: tuple[Advice, ...] = ()

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

    @property
    def is_unprofiled(self) -> bool:
        """Whether it is a run folder for which no profiler recorded anything: its iterations are the probe's steps."""
        recorded = (name for name in self.tables if TABLES[name].capture and name != "step_marks")
        return self.metadata.format == "run_folder" and not any(recorded) and "kernels" not in self.tables

    @property
    def marked_steps(self) -> int | None:
        """Return how many steps the window holds; None if the source marks none."""
        table = self.require("iterations")
        return int(table.numbers("steps")[table.numbers("in_window")].sum()) or None if len(table) else None

    @property
    def counted_steps(self) -> int | None:
        """Return how many steps the counted kernels are of; None if kernels of no step may be among them."""
        return None if self.metadata.window.first is None else self.marked_steps

    def with_tables(self, *tables: Table) -> Profile:
        """Return a copy with `tables` added, replacing those of the same name."""
        added = {t.spec.name: t for t in tables}
        absent = {name: why for name, why in self.absent.items() if name not in added}
        return replace(self, tables={**self.tables, **added}, absent=absent)

    def with_absent(self, **reasons: str) -> Profile:
        """Return a copy that gives the reasons why these tables are missing."""
        return replace(self, absent={**self.absent, **reasons})

    def with_notes(self, *notes: Note) -> Profile:
        """Return a copy with `notes` added."""
        return replace(self, metadata=replace(self.metadata, notes=(*self.metadata.notes, *notes)))

    def with_metadata(self, **changed: Any) -> Profile:
        """Return a copy with these metadata fields replaced."""
        return replace(self, metadata=replace(self.metadata, **changed))
