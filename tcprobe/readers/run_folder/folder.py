"""Read a run folder of `tcprobe profile`: what the probe saw, joined with what the profiler recorded."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.errors import InputError, MissingInput
from tcprobe.foreign import is_file, walk
from tcprobe.foreign import read as read_bytes
from tcprobe.jsonfile import MOST_BYTES, Text, read_object, record, records
from tcprobe.masking import mask_tree
from tcprobe.probe.constants import PARTIAL, RANKS, RECORD, WITH_XSPACE, WORDS
from tcprobe.readers.base import Refusal
from tcprobe.readers.merge import merge
from tcprobe.readers.run_folder.gpu_states import with_states
from tcprobe.schema.profile import Metadata, Note, Policy, Profile

if TYPE_CHECKING:
    from tcprobe.readers.run_folder.recount import Recount

FORMAT = "run_folder"
WHAT: Final = "a run folder of tcprobe"

NOT_RECORDED: Final = "the profiler left no file in this run"
NO_STEPS: Final = "no training step was seen"
NO_GRAPH: Final = "the probe recorded no GEMM-like op of a training function"
NO_SCOPES: Final = "the probe recorded no scope of a Keras layer"
NO_PROBE: Final = "the probe did not watch this run"
NO_METRICS: Final = "the workload logged no figure that a pattern finds"
NO_GRADIENTS: Final = "profile with --numerics counts them"
SECRETS_LEFT: Final = Note(
    "secrets-left",
    f"probe/{WORDS} holds the secrets of the command line: tcprobe removes it when it sees a run end",
    "remove that file once the workload has ended",
)
INNER: Final = (WITH_XSPACE, RANKS)
"""Folders of a run whose runs are no runs beside it."""
FROM_PROBE: Final = ("window", "peak_gpu_memory_bytes", "retraces")
"""What run.json has from the probe once the run has ended."""
FROM_PROFILER: Final = (
    *("launches", "launch_configs", "op_details", "memory_ops", "host_ops", "ranges", "step_marks"),
    "kernel_counters",
)


class _Run(Struct):
    """What is read of run.json, and of probe.json, which holds some of the same."""

    tensorflow: Text | None = None
    host: Text | None = None
    rank: Any = None
    command: list[Any] | None = None
    precision: Text | None = None
    policy: dict[str, Any] | None = None
    xla: bool | None = None
    target_gpu: Text | None = None
    gpu_used: bool | None = None
    partial: bool = True
    finished: bool = False
    profiler: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    profiler_exit_code: int | None = None
    interrupted: Any = None
    signals: list[Any] = field(default_factory=list)
    step_range: Any = None
    notes: list[Any] = field(default_factory=list)
    gaps: list[Any] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether it says how the run ended."""
        return self.exit_code is not None or self.profiler_exit_code is not None


class _Gap(Struct):
    hook: Any = None
    reason: Any = None
    raised: bool = False


def finds(path: Path) -> list[Path]:
    """Return the run.json of a run folder; of a folder of run folders, all of theirs, at any depth where none is near.

    What lies in a run is then offered, and read, as that run, not as the profile that its profiler left. Runs that
    never ended count where there are no others. A killed tcprobe may have left no file.
    """
    if path.name == RECORD:
        return [path] if _is_record(path) else []
    if not path.is_dir():
        return []
    if _is_record(path / RECORD, path):
        return [path / RECORD]
    runs, begun = _below(path)
    return runs or begun


def passes_over(path: Path, files: list[Path]) -> list[Path]:
    """Return the runs below `path` that never ended and that `finds` did not return, as it found others."""
    return [] if path in (files[0], files[0].parent) else [file.parent for file in _below(path)[1] if file not in files]


def _below(path: Path) -> tuple[list[Path], list[Path]]:
    """Return the run.json of the run folders below a folder, and of those whose run never ended."""
    runs: list[Path] = []
    begun: list[Path] = []
    for level, (_, folders, _) in enumerate(walk(path, {})):
        for folder in (f for f in folders if f.name not in INNER):
            found = begun if folder.name.startswith(PARTIAL) else runs
            if (found is begun or not folder.name.startswith(".")) and _is_record(Path(folder.path, RECORD), path):
                found.append(Path(folder.path, RECORD))
        folders[:] = [folder for folder in folders if not folder.name.startswith(".") and folder.name not in INNER]
        if level == 0 and (runs or begun):
            break
    return sorted(runs), sorted(begun)


def _is_record(path: Path, within: Path | None = None) -> bool:
    """A run.json that names tcprobe; one that is damaged or missing counts where the probe's folder lies beside it."""
    if os.path.lexists(path) and not is_file(path, within):
        return False
    probe, begun = path.parent / "probe", path.parent.name.startswith(PARTIAL)
    return "tcprobe" in read_object(path) or (probe / "config.json").is_file() or (begun and probe.is_dir())


def read(files: list[Path]) -> Profile:
    """Read a run folder without what profilers recorded: its record and the probe's tables."""
    return around(files, (), ())


def holds(files: list[Path]) -> Path:
    """Return the folder of the profilers' files in the run folder of the first file."""
    return files[0].parent / "raw"


def around(files: list[Path], inside: Sequence[Profile], refused: Sequence[Refusal]) -> Profile:
    """Read the run folder of the first file: its record, the probe's tables, and `inside`, what lies below ``raw/``.

    A file of it that is missing or damaged costs its tables, with a note, and never the rest. A profile's own graph
    (XLA's) stays where the probe has none. Secrets are masked: earlier versions wrote the command line as it was typed.
    """
    folder = files[0].parent
    run = mask_tree(read_object(folder / RECORD))
    probe = mask_tree(read_object(folder / "probe" / "probe.json", folder))
    own, damage, counted = _probed(folder, probe, inside)
    damage += [] if probe else _unread(folder / "probe" / "probe.json", folder)
    if counted is not None:
        inside = [counted.renumber(one) for one in inside]
        run, probe = ({**found, "window": counted.window(found.get("window"))} for found in (run, probe))
    profile = merge([own, *inside]) if inside else merge([_with_nothing_recorded(own, refused)])
    if inside:
        profile = replace(profile.with_metadata(format=inside[0].metadata.format), traits=inside[0].traits)
    profile = with_states(profile, run.get("gpu_states"))
    ended, watched = record(_Run, run) or _Run(), record(_Run, probe) or _Run()
    ending = _ending(folder, ended, watched) if run else [_nothing_of(folder)]
    source = ended if any(run.get(key) is not None for key in ("exit_code", "profiler_exit_code")) else watched
    notes = [*ending, *_notes(folder, ended, source)]
    refusals = [Note("unreadable-profile", error.message, error.hint, "error") for error in refused]
    others = [note for note in profile.metadata.notes if _adds(note, ended, notes)]
    return _described(profile, ended, watched).with_metadata(
        paths=(str(folder),),
        partial=ended.partial and not (run and _ended_well(ended, watched)),
        run={**run, **{key: probe.get(key) for key in FROM_PROBE if run.get(key) is None}},
        notes=(*others, *refusals, *damage, *notes),
    )


def _probed(
    folder: Path, seen: dict[str, Any], inside: Sequence[Profile]
) -> tuple[Profile, list[Note], Recount | None]:
    """Return what the probe wrote, with why a table is missing, notes, and the steps as all calls tell them.

    Args:
        folder: the run folder.
        seen: probe.json.
        inside: what profilers recorded, whose steps are marked.
    """
    from tcprobe.readers.run_folder.graph import load_graph, read_graph, read_scopes
    from tcprobe.readers.run_folder.periods import phase_of, read_phases, with_recorded
    from tcprobe.readers.run_folder.recount import read_recount
    from tcprobe.readers.run_folder.steps import read_gradients, read_metrics, read_steps

    probe, watched = folder / "probe", (folder / "probe" / "config.json").is_file()
    steps, metrics = read_steps(probe / "steps.csv", seen), read_metrics(probe / "metrics.csv")
    own, (graph, wrong) = read_phases(seen), load_graph(probe / "graph.json")
    tables = [table for table in (steps[0], metrics[0], own) if table is not None]
    profile, counted, notes = Profile(Metadata(FORMAT, (str(folder),))).with_tables(*tables), None, [*wrong]
    if all(note.code != "damaged-steps" for note in steps[1]):
        counted, more = read_recount(probe / "calls.bin", profile, seen, inside)
        notes += more
    profile = profile if counted is None else counted.renumber(profile).with_tables(counted.steps, counted.phases)
    phases, window = profile.table("phases"), seen.get("window")
    row = -1 if phases is None else phase_of(phases, window if counted is None else counted.window(window))
    if phases is not None:
        profile = profile.with_tables(with_recorded(phases, seen, graph))
    for name, why, (table, damage) in (
        ("graph_ops", NO_GRAPH, read_graph(probe / "graph.json", graph, seen, phases, row, profile.table("steps"))),
        ("scopes", NO_SCOPES, (read_scopes(graph), ())),
        ("steps", NO_STEPS, steps),
        ("metrics", NO_METRICS, metrics),
        ("gradients", NO_GRADIENTS, read_gradients(probe / "gradients.json")),
    ):
        if table is None:
            profile = profile.with_absent(**{name: why if watched else NO_PROBE})
        elif profile.table(name) is None:
            profile = profile.with_tables(table)
        notes += damage
    return profile, notes, counted


def _unread(path: Path, within: Path) -> list[Note]:
    """Say why the probe's record gives nothing, where there is one."""
    from tcprobe.readers.run_folder.steps import damaged

    try:
        read_bytes(path, MOST_BYTES, within)
    except MissingInput:
        return []
    except InputError as error:
        return [damaged(path, error.found, "phases and notes of the probe are unknown")]
    return [damaged(path, "it holds no object of JSON", "phases and notes of the probe are unknown")]


def _with_nothing_recorded(own: Profile, refused: Sequence[Refusal]) -> Profile:
    """Say why there is no table of a profiler's."""
    reason = NOT_RECORDED
    if refused:
        found = refused[-1].found if isinstance(refused[-1], InputError) else refused[-1].message
        reason = f"the profile cannot be read: {found}"
    return own.with_absent(**dict.fromkeys(FROM_PROFILER, reason))


def _described(profile: Profile, run: _Run, probe: _Run) -> Profile:
    """Fill the metadata from the record; what the profile itself says stands where the record is silent."""
    own = profile.metadata
    policy = record(Policy, probe.policy)
    tensorflow = probe.tensorflow if probe.finished else _first(run.tensorflow, probe.tensorflow)
    by_tensorflow = own.format == "xplane" and run.profiler.get("name") == "tensorflow"  # only the record says whose
    return profile.with_metadata(
        profiler="TensorFlow's profiler (XSpace)" if by_tensorflow else own.profiler,
        framework=f"tensorflow {tensorflow}" if tensorflow else own.framework,
        host=_first(run.host, own.host),
        rank=run.rank if isinstance(run.rank, int) else own.rank,
        command=own.command if run.command is None else tuple(map(str, run.command)),
        precision=_first(run.precision, own.precision),
        policy=policy,
        xla=_first(True if policy is not None and policy.clustered_by else None, run.xla, own.xla),
        target_gpu=_first(run.target_gpu, own.target_gpu),
        gpu_used=_first(run.gpu_used, probe.gpu_used, own.gpu_used),
    )


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _notes(folder: Path, run: _Run, source: _Run) -> list[Note]:
    """Return what probe and capture said, by `source`, and the hooks that are missing."""
    left = [SECRETS_LEFT] if is_file(folder / "probe" / WORDS) else []
    said = [note for note in records(Note, source.notes) if note.code and note.message]
    if run.step_range:  # which the probe does not know
        said = [replace(note, remedy=None) if note.code == "no-tensorflow" else note for note in said]
    gaps = records(_Gap, source.gaps)
    texts = [f"not recorded: {gap.hook}: {gap.reason}" for gap in gaps if not gap.raised]
    if raised := ", ".join(str(gap.hook) for gap in gaps if gap.raised):
        texts.append(f"not recorded: {raised}, which failed here; probe/probe.json says how")
    return [*left, *said, *(Note("probe-gap", text, None, "note") for text in texts)]


def _adds(note: Note, run: _Run, notes: Sequence[Note]) -> bool:
    """Say whether a note of the profile's reader tells something that the run folder does not tell better."""
    if note.code == "environment-inside":
        return all(other.code != "private-files" for other in notes)
    if note.code == "warm-up-inside":
        return all(other.code != "ncu-one-step" for other in notes)
    return note.code != "no-kernels" or run.gpu_used is not False


def _ended_well(run: _Run, probe: _Run) -> bool:
    """Say whether the workload ended well though tcprobe did not write so: the probe has recorded all of it."""
    return not run.has_ended and probe.finished and probe.exit_code == 0


def _nothing_of(folder: Path) -> Note:
    state = "is damaged" if (folder / RECORD).exists() else "is missing (was tcprobe stopped before it began?)"
    return Note("damaged-run", f"{RECORD} {state}: command, versions and ending are unknown")


def _ending(folder: Path, run: _Run, probe: _Run) -> list[Note]:
    """Say how a run ended that did not end well, or that ended without tcprobe."""
    if not run.partial:
        return []
    remedy = _name_it(folder) if probe.finished and not run.has_ended else None
    figures = "all of it was recorded" if _ended_well(run, probe) else "the figures are of what ran until then"
    return [Note("partial-run", f"{_how_ended(run, probe)}: {figures}", remedy)]


def _name_it(folder: Path) -> str | None:
    """Return how to give a folder its final name; None if it has it."""
    if not folder.name.startswith(PARTIAL):
        return None
    final = folder.with_name(folder.name.removeprefix(PARTIAL).rpartition("-")[0])
    return f"give the run folder its name: mv {shlex.quote(str(folder))} {shlex.quote(str(final))}"


def how_ended(run: dict[str, Any]) -> str:
    """Return how a workload that did not end well did end, by its run.json."""
    return _how_ended(record(_Run, run) or _Run(), _Run())


def _how_ended(run: _Run, probe: _Run) -> str:
    if run.interrupted:
        return "the workload was interrupted"
    after = f" after {', '.join(map(str, run.signals))}" if run.signals else ""
    if run.exit_code is not None:
        ended = _by_code(run.exit_code)
        return ended if ended.endswith(after.removeprefix(" after")) else ended + after
    if run.profiler_exit_code is not None:
        wrapping = f"the profiler ended with exit code {run.profiler_exit_code}{after}"
        return f"{wrapping} (whether the workload failed is not known)"
    if probe.exit_code is not None:
        return f"tcprobe was stopped, or had no room, before it wrote how the run ended; {_by_code(probe.exit_code)}"
    return "how the workload ended was not recorded (it still runs, or was killed with tcprobe, or the disk was full)"


def _by_code(code: int) -> str:
    if not code:
        return "the workload ended well"
    try:
        return f"the workload was ended by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"the workload failed with exit code {code}"
