"""What DLProf left in its folder (reports, database, Nsight Systems' files), and what that says about the run."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tcprobe.foreign import head
from tcprobe.schema.profile import Note

REPORTS: Final = (".csv", ".json")
RECORDINGS: Final = (".qdstrm", ".qdrep", ".nsys-rep")
_NOT_FOUND: Final = re.compile(r"Unable to split profile into training iterations: key (?:op|node) (.*?) not found")
PEEK_BYTES: Final = 1 << 20


def reports(home: Path) -> list[Path]:
    """Return the reports that are not empty, sorted."""
    return sorted(p for p in home.glob("*") if p.suffix in REPORTS and _size(p) > 0)


def database(home: Path) -> Path | None:
    """Return DLProf's database: the newest, for DLProf numbers them and overwrites none."""
    return _newest(home.glob("dlprof_dldb*.sqlite"))


def nsys_database(home: Path) -> Path | None:
    """Return the database that Nsight Systems exported, which DLProf can read again; None if there is none."""
    return _newest(p for p in home.glob("*.sqlite") if "dldb" not in p.name)


def _newest(paths: Iterable[Path]) -> Path | None:
    return max((p for p in paths if _size(p) > 0), key=lambda p: p.stat().st_mtime_ns, default=None)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text(path: Path) -> str:
    return (head(path, PEEK_BYTES) or b"").decode("utf-8", errors="replace")


def missing_notes(home: Path, exit_code: int, workload_code: int | None, key_node: str | None) -> Iterator[Note]:
    """Say what is missing from a run, and what to do about it.

    Args:
        home: DLProf's output folder.
        exit_code: exit code of DLProf.
        workload_code: the workload's own; None where it is not known.
        key_node: the key node asked for.
    """
    held = reports(home)
    if not held:
        yield _nothing(home, exit_code, key_node)
    elif exit_code != 0 and exit_code != workload_code:
        known = workload_code is not None
        whose = f"the workload itself ended with {workload_code}" if known else "the workload's own code or DLProf's"
        yield Note(
            "dlprof-exit",
            f"dlprof ended with exit code {exit_code}, though it wrote reports: {whose}",
            "see what the workload printed",
        )
    if held and not any(path.stem.endswith("_summary") for path in held):
        yield Note(
            "no-summary",
            "DLProf wrote no summary (runs of batch size 1 have been seen to end so): GPU and versions are not known",
            "run it again, with a larger batch",
        )
    if key_node is not None:
        yield from _key_node(held, key_node)
    if database(home) or nsys_database(home):
        yield _private(home)


def _private(home: Path) -> Note:
    return Note(
        "private-files",
        f"the databases in {home.name} hold the whole environment and command line of the run, passwords included",
        "leave *.sqlite out when you pass the folder on; the report does not need them",
        "note",
    )


def _key_node(held: list[Path], key_node: str) -> Iterator[Note]:
    told = [m[1] for p in held if p.stem.endswith("_expert_systems") for m in _NOT_FOUND.finditer(_text(p))]
    if told:
        yield Note(
            "key-node-not-found",
            f"DLProf found no op called {key_node!r}: the whole process counts as one iteration",
            "give --key-node the Op ID or Op Name of an op that runs once a step, from raw/dlprof/dlprof_detailed.csv "
            "of the run folder (the loss, or the optimizer's counter, as in ASSIGNADDVARIABLEOP_1)",
        )


def _nothing(home: Path, exit_code: int, key_node: str | None) -> Note:
    interrupted = exit_code > 128
    if (found := nsys_database(home)) is not None:
        key = f" --key_node={shlex.quote(key_node)}" if key_node else ""
        return Note(
            "dlprof-post-processing",
            f"Nsight Systems recorded the run and DLProf wrote no report from it (exit code {exit_code})",
            f"aggregate the recording again, without running the workload: in raw/{home.name} of the run folder, "
            f"dlprof --database={found.name}{key} --reports=all --output_path=reports, then tcprobe report reports "
            "(other builds: --nsys_database, --key_op)",
            "error",
        )
    if interrupted:
        return Note(
            "dlprof-interrupted",
            "DLProf was interrupted and wrote nothing: it does not complete when its workload is",
            "let the workload end by itself, after fewer steps",
            "error",
        )
    return Note(
        "no-reports",
        f"DLProf wrote no report (exit code {exit_code})",
        "see what it printed; a build may refuse a mode or the driver, and needs nsys beside it",
        "error",
    )


def stage(home: Path, beside: Sequence[Path] = (), now: float | None = None) -> str | None:
    """Say what DLProf is doing, judging by the files so far; None while the workload runs.

    Args:
        home: DLProf's output folder.
        beside: Nsight Systems' files of this run in other folders.
        now: the time, in seconds since the epoch.
    """
    held = [*beside, *home.glob("*")]
    recorded = _newest(p for p in held if p.suffix in RECORDINGS)
    exported = _newest(p for p in held if p.suffix == ".sqlite" and "dldb" not in p.name)
    begun = recorded or exported
    if begun is None:
        return None
    if written := reports(home):
        doing = f"is writing its reports ({len(written)} so far)"
    elif database(home) is not None:
        doing = "is writing its database"
    else:
        doing = "is correlating kernels and ops" if exported else "has recorded the run and is exporting it"
    minutes = int(((time.time() if now is None else now) - begun.stat().st_mtime) // 60)
    since = f", for {minutes} min now; it may take longer than the run itself" if minutes > 0 else ""
    return f"DLProf {doing}{since}"
