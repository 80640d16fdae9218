"""Write run.json: what ran, where, with what, and how it ended; docs/run-folder.md describes every key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tcprobe import __version__
from tcprobe.capture import environment
from tcprobe.capture.base import CaptureRequest, Collected, Launch
from tcprobe.capture.gpu_state import states_of
from tcprobe.capture.process import Ended
from tcprobe.probe.ranks import rank_of
from tcprobe.schema.profile import Note
from tcprobe.schema.records import as_dict

SCHEMA: Final = 1
FROM_PROBE: Final = ("gpu_used", "gpus", "peak_gpu_memory_bytes", "window", "gaps")


def begin(request: CaptureRequest, launch: Launch, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a command about to start; see `new_record`.

    Args:
        request: what to capture.
        launch: how it is started.
        asked: ``workload``, ``profiler``, ``precision``, ``xla``, ``target_gpu`` and ``step_range`` as the user gave
            them, and how the ``key_node`` was found, and which ``constants`` of the script were changed.
    """
    holds = environment.ask_interpreter(request.python, request.launcher)
    module = ("-m",) if request.target.kind == "module" else ()
    values = {
        **asked,
        "command": [*module, request.target.name, *request.target.args],
        "profiler": {"name": asked["profiler"], "version": launch.profiler_version},
        "python": holds.python,
        "tensorflow": holds.tensorflow,
        "keras": holds.keras,
        "iter_start": request.iter_start,
        "iter_stop": request.iter_stop,
        "ranks": None if request.ranks is None else list(request.ranks),
    }
    return new_record(values, launch.environment)


def new_record(values: Mapping[str, Any], chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return the record of a run that begins now: complete except for its end, and marked as partial.

    Args:
        values: by key what only the caller knows; what is not among them is null.
        chosen: variables that are set for the workload besides those of this process.
    """
    return {
        "schema": SCHEMA,
        "tcprobe": __version__,
        "workload": None,
        "command": None,
        "cwd": str(Path.cwd()),
        "profiler": None,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        **dict.fromkeys(("wall_ns", "exit_code", "profiler_exit_code")),
        "partial": True,
        "interrupted": False,
        "signals": [],
        "environment": environment.recorded(os.environ, chosen),
        **environment.host_facts(),
        "rank": rank_of(os.environ),
        **dict.fromkeys(("python", "tensorflow", "keras", "precision", "xla", "iter_start", "iter_stop")),
        **dict.fromkeys((*FROM_PROBE, "target_gpu", "step_range", "with_xspace", "key_node", "constants", "ranks")),
        "gpu_states": None,
        "numerics": None,
        "notes": [],
        **values,
    }


def finish(
    record: Mapping[str, Any], ended: Ended, collected: Collected, probe: Mapping[str, Any], wraps: bool
) -> dict[str, Any]:
    """Return the record with how the run ended, what the probe saw and what the capture found.

    Args:
        record: what `begin` or `new_record` returned.
        ended: how the command ended.
        collected: what the profiler wrote.
        probe: probe.json; empty if there is none.
        wraps: whether the command was a profiler that starts the workload.
    """
    own = collected.workload_code if wraps else ended.exit_code
    killed = own is None and probe.get("finished") is False  # and the profiler tells of no failure
    versions = {key: probe[key] for key in ("python", "tensorflow", "keras") if key in probe}
    return {
        **record,
        **versions,
        **{key: probe.get(key) for key in FROM_PROBE},
        "gpu_states": states_of(ended.gpus, probe.get("window"), record.get("environment") or {}),
        "wall_ns": ended.wall_ns,
        "exit_code": own,
        "profiler_exit_code": ended.exit_code if wraps else None,
        "partial": killed or (ended.exit_code if own is None else own) != 0 or ended.cut,
        "interrupted": ended.interrupted,
        "signals": list(ended.signals),
        "notes": _notes(probe, collected.notes),
    }


def _notes(probe: Mapping[str, Any], ours: tuple[Note, ...]) -> list[dict[str, Any]]:
    """Join the probe's notes and ours; if both have a code, ours counts."""
    theirs = probe.get("notes")
    codes = {note.code for note in ours}
    kept = [n for n in theirs if isinstance(n, dict) and n.get("code") not in codes] if isinstance(theirs, list) else []
    return kept + [as_dict(note) for note in ours]
