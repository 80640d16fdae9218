"""Named baselines: of a run the figures, steps, layers and ranges that a comparison needs, in a small file to commit.

It holds no command, host, environment or path, nor kernels and ops. What is compared with it comes out as with the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np
from msgspec import Struct, ValidationError, convert, field

from tcprobe import __version__
from tcprobe.analysis import Options
from tcprobe.analysis.compare.figures import COMMUNICATION, copies
from tcprobe.analysis.compare.runs import FROM_RECORD, OTHER_VERSION
from tcprobe.analysis.phases import Retrace
from tcprobe.analysis.summary.rates import THROUGHPUT
from tcprobe.analysis.validity import NOT_FINITE
from tcprobe.audit.settings import find_settings
from tcprobe.errors import MissingInput, UnsupportedVersion, UsageError, WrongFormat, writing
from tcprobe.flows.report import make_report
from tcprobe.foreign import is_folder, is_there, read
from tcprobe.jsonfile import parse, records
from tcprobe.report.document import spelt
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Note, Profile, Window
from tcprobe.schema.records import as_dict
from tcprobe.schema.screen import Answer, AnswerKind, Bar, FirstScreen, Prediction, VerdictWord
from tcprobe.schema.statement import Statement, say
from tcprobe.schema.tables import TABLES
from tcprobe.schema.waits import Tuning, Waiting

VERSION: Final = 1
FOLDER: Final = "tcprobe-baselines"
MOST_BYTES: Final = 64 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)
_HINT: Final = "tcprobe baseline NAME RUN writes one"
_WHY_NOT: Final = "a baseline keeps figures, steps, layers and ranges alone"
_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "summary": ("metric", "value", "low", "high", "text", "basis", "reason", "reason_kind"),
    "causes": ("device", "group", "cause", "launches", "sum_ns", "split_ns"),
    "devices": (
        *("device", "name", "tensor_cores", "state", "sum_ns", "peak_memory_bytes"),
        *("state_basis", "sm_clock_mhz", "memory_clock_mhz"),
    ),
    "layers": ("layer", "launches", "sum_ns", "tc_ns", "unknown_ns"),
    "iterations": ("iteration", "in_window", "steps", "duration_ns"),
    "steps": ("step", "start_ns", "duration_ns", "kind"),
    "phases": ("phase", "first_step", "last_step", "steps", "parts", "in_window"),
    "metrics": ("step", "name", "value", "unit"),
    "range_times": ("domain", "name", "calls", "sum_ns", "mean_ns", "min_ns", "max_ns"),
    "memory_ops": (),
}
"""Tables that a comparison reads, and which of their columns, none of which holds a path; without any it is there."""
_OF_RECORD: Final = (*(name for name in FROM_RECORD if name != "host"), "wall_ns", "peak_gpu_memory_bytes")
UNSAID: Final[Statement[AnswerKind]] = say("no_kernels")
"""A comparison shows the word of the verdict alone, so that nobody reads why."""
_OF_NOTES: Final = (NOT_FINITE, "threads")


class Baseline(Struct, frozen=True, forbid_unknown_fields=True):
    """What the file of a baseline holds."""

    tcprobe: str  # version that wrote it
    name: str
    started: str | None  # when the run was made: UTC, ISO 8601
    format: str
    profiler: str | None
    framework: str | None
    precision: str | None  # that the run computes in
    xla: bool | None
    gpu_used: bool | None
    partial: bool
    window: Window
    record: dict[str, Any]  # of run.json
    notes: tuple[Note, ...]
    traits: tuple[str, ...]
    verdict: VerdictWord | None
    bar: Bar | None
    waiting: Waiting | None
    tuning: Tuning | None
    predicted: Prediction | None
    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    @property
    def profile(self) -> Profile:
        """Return what a comparison reads of the run.

        Raises:
            KeyError, ValueError, TypeError: its tables do not follow their contract.
        """
        metadata = Metadata(
            self.format, (), self.profiler, self.framework, precision=self.precision, xla=self.xla,
            gpu_used=self.gpu_used, partial=self.partial, window=self.window, notes=self._notes, run=self.record,
        )  # fmt: skip
        tables = {name: _table(name, columns) for name, columns in self.tables.items()}
        screen = None if self.verdict is None else FirstScreen(Answer(self.verdict, UNSAID), self.bar)
        return Profile(
            metadata, tables, {name: _WHY_NOT for name in TABLES if name not in tables},
            frozenset({*self.traits, "figures_only"}), waiting=self.waiting, tuning=self.tuning,  # type: ignore[arg-type]
            predicted=self.predicted, screen=screen,
        )  # fmt: skip

    @property
    def _notes(self) -> tuple[Note, ...]:
        if self.tcprobe == __version__:
            return self.notes
        message = f"tcprobe {self.tcprobe} wrote it, and this is {__version__}: some figures may be defined otherwise"
        return (*self.notes, Note(OTHER_VERSION, message, f"write it again: tcprobe baseline {self.name} RUN --force"))


def _table(name: str, columns: Mapping[str, list[Any]]) -> Table:
    """Return a table; what a script logged may be infinite or NaN, and of some tables only counts that it is there."""
    spec = TABLES[name]
    for column in spec.columns:
        if column.values and not {*columns.get(column.name, ())} <= {*column.values, None}:
            raise ValueError(f"{name}.{column.name} has a value that is none of its own")
    logged = {column.name for column in spec.columns if column.nan}
    given = {key: [float(v) for v in values] if key in logged else values for key, values in columns.items()}
    return Table(spec, given or {column.name: [] for column in spec.columns})


def baseline_of(name: str, profile: Profile) -> Baseline:
    """Return the baseline of an analysed run."""
    metadata, screen = profile.metadata, profile.screen
    tables = {table: _columns(profile, table) for table in _KEPT if table in profile.tables}
    return Baseline(
        __version__,
        name,
        started if isinstance(started := metadata.run.get("started"), str) else None,
        metadata.format,
        metadata.profiler,
        metadata.framework,
        metadata.computes_in,
        metadata.xla,
        metadata.gpu_used,
        metadata.partial,
        metadata.window,
        {**{key: metadata.run[key] for key in _OF_RECORD if key in metadata.run}, "retraces": _retraces(metadata)},
        tuple(note for note in metadata.notes if note.code in _OF_NOTES),
        tuple(sorted(profile.traits)),
        None if screen is None else screen.answer.word,
        None if screen is None else screen.bar,
        profile.waiting,
        profile.tuning,
        profile.predicted,
        tables,
    )


def _retraces(metadata: Metadata) -> list[dict[str, Any]]:
    """Return when which function was traced again, without where it stands."""
    return [as_dict(one) for one in records(Retrace, metadata.run.get("retraces"))]


def _columns(profile: Profile, name: str) -> dict[str, list[Any]]:
    table = profile.tables[name]
    if name == "metrics":
        table = table.take(_told(table))
    columns = {column: list(table.values(column)) for column in _KEPT[name]}
    if name == "iterations" and profile.is_unprofiled:
        columns["duration_ns"] = [None] * len(table)  # they are the steps, which are there
    for row in _more(profile) if name == "summary" else ():
        for column, values in columns.items():
            values.append(row.get(column))
    return columns


def _told(metrics: Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which logged figures count: each throughput, of others those of the last step that logged them."""
    steps, kept = np.nan_to_num(metrics.numbers("step"), nan=-1.0), np.zeros(len(metrics), np.bool_)
    for name in metrics.names("name").names:
        mine = metrics.names("name").among(name)
        kept |= mine if name.lower() == THROUGHPUT or not mine.any() else mine & (steps == steps[mine].max())
    return kept


def _more(profile: Profile) -> Iterator[dict[str, Any]]:
    """Yield the figures that a comparison takes from tables which are left out, as rows of `summary`."""
    if (count := copies(profile)) is not None:
        yield {"metric": "copies", "value": count, "basis": "measured"}
    if len(profile.require("kernels")) and profile.figure(COMMUNICATION) is None:
        yield {"metric": COMMUNICATION, "value": 0.0, "basis": "measured"}


def check_name(name: str) -> str:
    """Return a name that a baseline may have.

    Raises:
        UsageError: it is none.
    """
    if not _NAME.fullmatch(name):
        hint = "letters, digits and . _ + - make a name: tcprobe baseline main RUN"
        raise UsageError(f"{name!r} is no name for a baseline", hint)
    return name


def baselines_folder() -> Path:
    """Return where baselines lie: as pyproject.toml says, else the nearest folder of that name upwards, else here."""
    if (folder := find_settings(Path()).baselines) is not None:
        return folder
    here = Path.cwd()
    near = (place / FOLDER for place in (here, *here.parents))
    return next((place for place in near if is_folder(place)), Path(FOLDER))


def baseline_files() -> list[Path]:
    """Return the files of all baselines, by name."""
    return sorted(path for path in baselines_folder().glob("*.json") if _NAME.fullmatch(path.stem))


def file_of(name: str) -> Path:
    """Return the file of a baseline, which may not be there."""
    return baselines_folder() / f"{check_name(name)}.json"


def make_folder(folder: Path) -> None:
    """Make the folder of baselines where there is none.

    Raises:
        OutputError: the system refused.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def read_baseline(file: Path) -> Baseline:
    """Read the file of a baseline.

    Raises:
        MissingInput: there is none.
        UnreadableInput: the system refused to read it.
        WrongFormat, UnsupportedVersion: it is damaged, no baseline, or of a later version.
    """
    try:
        given = parse(read(file, MOST_BYTES).decode())
    except ValueError as error:
        raise WrongFormat(file, f"is no baseline: {error}", _HINT) from None
    if not isinstance(given, dict) or not isinstance(given.get("schema"), int):
        raise WrongFormat(file, "is no baseline: it has no schema", _HINT)
    if given["schema"] != VERSION:
        hint = "write it again: tcprobe baseline NAME RUN --force"
        raise UnsupportedVersion(file, f"is a baseline of schema {given['schema']}; {VERSION} is read", hint)
    try:
        found = convert({key: value for key, value in given.items() if key != "schema"}, Baseline)
        _ = found.profile
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise WrongFormat(file, f"is a damaged baseline: {error}", _HINT) from None
    return found


def write_entry(baseline: Baseline, out: TextIO) -> None:
    """Write a baseline, a column a line, so that versions of it can be told apart."""
    told = {"schema": VERSION, **as_dict(baseline)}
    tables = told.pop("tables")
    lines = [f" {json.dumps(key)}: {_text(value)}" for key, value in told.items()]
    held = []
    for name, columns in tables.items():
        rows = ",\n".join(f"   {json.dumps(key)}: {_text(values)}" for key, values in columns.items())
        held.append(f"  {json.dumps(name)}: {{\n{rows}\n  }}")
    out.write("{\n" + ",\n".join([*lines, ' "tables": {\n' + ",\n".join(held) + "\n }"]) + "\n}\n")


def _text(value: Any) -> str:
    return json.dumps(spelt(value), separators=(",", ":"), allow_nan=False)


def named_baseline(name: str) -> Baseline:
    """Return the baseline of a name.

    Raises:
        UsageError: that is no name.
        InputError: there is none, or it cannot be read; the hint names those that there are.
    """
    file = file_of(name)
    if not is_there(file):
        names = ", ".join(path.stem for path in baseline_files())
        raise MissingInput(file, "no such baseline", f"there are {names}" if names else _HINT)
    return read_baseline(file)


def make_baseline(name: str, path: Path, options: Options) -> Baseline:
    """Read a run and return its baseline.

    Raises:
        UsageError, InputError, MeasurementFailed: as `make_report`, or the name is none.
    """
    return baseline_of(check_name(name), make_report(path, options))
