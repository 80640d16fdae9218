"""A Profile: what every reader returns and every analysis takes and returns.

Metadata says where the figures come from; `tables` holds what is there; `absent` says why the rest is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tcprobe.schema.causes import OffTensorCores
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import Advice, WindowBasis
from tcprobe.schema.tables import TABLES

Level = Literal["note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something the reader of a report must know.

    Attributes:
        code: stable identifier in kebab-case (``one-step-only``).
        message: one sentence.
        remedy: what to do about it; None where nothing can be done.
        level: note (for information), warning (a figure is affected), error (a figure is missing).
    """

    code: str
    message: str
    remedy: str | None = None
    level: Level = "warning"


@dataclass(frozen=True, slots=True)
class Window:
    """The iterations that the figures count, both ends included.

    Attributes:
        first, last: numbers of the first and last iteration; None where there are no iterations.
        start_ns, end_ns: its bounds on the profile's clock; None where unknown.
        basis: how it was chosen.
    """

    first: int | None = None
    last: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    basis: WindowBasis = "whole capture"


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """One source of a report: what a reader found, and what was taken from it.

    Attributes:
        format: name of the reader.
        paths: files read, as the user would name them.
        tables: taken whole.
        columns: of another source's tables, those that it filled.
        left_out: of its tables, those that were not taken -> why.
        unread: why nothing of it was read; None where it was.
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
        framework: ``tensorflow 2.21.0``, where known.
        host: machine that ran it.
        rank: of the process in a distributed run, where known.
        command: the workload's command line.
        precision: precision asked for (float32, tf32, mixed_float16, mixed_bfloat16), where known.
        xla: whether XLA compiled the step, where known.
        target_gpu: id in gpus.csv against which blockers are judged where no GPU ran.
        gpu_used: whether the workload used a GPU, where known; False means a CPU run.
        partial: the run was cut off.
        window: iterations that count.
        notes: what the reader of the report must know.
        run: run.json of a run folder, as read; empty for a bare file.
        sources: what the path held, richest first; those of which nothing was read are among them.
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
        """Return the format that a column of a recorded table was read from; None where none is named."""
        filled = (s.format for s in self.sources if column in s.columns.get(table, ()))
        return next(filled, next((s.format for s in self.sources if table in s.tables), None))


@dataclass(frozen=True, slots=True)
class Profile:
    """Metadata and tables.

    Attributes:
        metadata: see `Metadata`.
        tables: by name; each conforms to `tcprobe.schema.tables.TABLES`.
        absent: name of a missing table -> why it is missing.
        off: the ops that something keeps off the Tensor Cores; None where there are none, or nothing was analysed.
        advice: what to do first, the most important first.
    """

    metadata: Metadata
    tables: dict[str, Table] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    off: OffTensorCores | None = None
    advice: tuple[Advice, ...] = ()

    def table(self, name: str) -> Table | None:
        """Return the table, or None where it is absent.

        Raises:
            KeyError: the contract has no such table.
        """
        if name not in TABLES:
            raise KeyError(f"no table {name}; there are {', '.join(TABLES)}")
        return self.tables.get(name)

    def require(self, name: str) -> Table:
        """Return the table; an empty one where it is absent."""
        found = self.table(name)
        return Table(TABLES[name], {c.name: [] for c in TABLES[name].columns}) if found is None else found

    def with_tables(self, *tables: Table) -> Profile:
        """Return a copy that also holds `tables`; they replace others of their name."""
        added = {t.spec.name: t for t in tables}
        absent = {name: why for name, why in self.absent.items() if name not in added}
        return replace(self, tables={**self.tables, **added}, absent=absent)

    def with_absent(self, **reasons: str) -> Profile:
        """Return a copy that says why these tables are missing."""
        return replace(self, absent={**self.absent, **reasons})

    def with_notes(self, *notes: Note) -> Profile:
        """Return a copy with these notes added."""
        return replace(self, metadata=replace(self.metadata, notes=(*self.metadata.notes, *notes)))

    def with_metadata(self, **changed: Any) -> Profile:
        """Return a copy with these metadata fields replaced."""
        return replace(self, metadata=replace(self.metadata, **changed))
