"""Find the files of one job's ranks in a folder: each names its rank, and no two name the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from tcprobe.errors import InputError
from tcprobe.jsonfile import read_object
from tcprobe.probe.constants import RANKS, RECORD
from tcprobe.readers import READERS
from tcprobe.readers.base import Holder, Reader
from tcprobe.readers.nsys import database as nsys
from tcprobe.readers.one_run import few
from tcprobe.readers.open import find_formats
from tcprobe.schema.profile import Note

_NAMED: Final = re.compile(r"(?:^|[^a-z])(?:rank|worker|process|task)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)


class RankFile(Struct, frozen=True):
    """The file, or run folder, of one rank."""

    path: Path
    rank: int | None  # None where a damaged file does not tell


class Job(Struct, frozen=True):
    """The ranks that lie in a folder, in their order."""

    files: tuple[RankFile, ...]
    notes: tuple[Note, ...] = ()  # what lies there besides, and how ranks are told
    some: bool = False  # whether some ranks alone were to be profiled


def find_job(path: Path, readers: Sequence[Reader] = READERS) -> Job | None:
    """Return the ranks of the job that a folder holds; None where it holds none, or a single profile.

    A run folder is one where its launcher started several ranks, each with a run folder within it. Otherwise all files
    of the richest format count. Two of the same number are of two jobs, and where most files have none it is no job.
    """
    if not path.is_dir():
        return None
    formats = find_formats(path, readers)
    if not formats:
        return None
    reader = formats[0].reader
    if isinstance(reader, Holder) and len(formats[0].files) == 1:
        ranks = formats[0].files[0].parent / RANKS
        return _started(ranks, readers) if ranks.is_dir() else None
    if len(formats[0].files) < 2:
        return None
    if len({file.parent for file in formats[0].files}) == 1 and reader.FORMAT not in (nsys.FORMAT,):
        return None  # the hosts of one session
    places = [file.parent if isinstance(reader, Holder) else file for file in formats[0].files]
    return _job(path, places, {place: _rank_of(place, reader) for place in places})


def _started(ranks: Path, readers: Sequence[Reader]) -> Job | None:
    """Return the ranks that a launcher started in one run, be it one alone."""
    formats = find_formats(ranks, readers)
    if not formats or not isinstance(formats[0].reader, Holder):
        return None
    files = [RankFile(file.parent, _recorded(file)) for file in formats[0].files]
    some = read_object(ranks.parent / RECORD).get("ranks") is not None
    return Job(tuple(sorted(files, key=lambda one: (one.rank is None, one.rank or 0, one.path))), some=some)


def _job(path: Path, places: Sequence[Path], told: dict[Path, int | InputError | None]) -> Job | None:
    by_name = not any(isinstance(rank, int) for rank in told.values())
    ranks = {place: _named(place, path) if by_name else rank for place, rank in told.items()}
    files = [RankFile(p, r if isinstance(r, int) else None) for p, r in ranks.items() if r is not None]
    numbers = Counter(one.rank for one in files if one.rank is not None)
    if len(numbers) < 2 or max(numbers.values()) > 1 or 2 * len(files) <= len(places):
        return None
    notes = []
    if foreign := sorted(str(place.relative_to(path)) for place, rank in ranks.items() if rank is None):
        message = f"{path}: not read, as nothing tells which rank of the job it is: {few(foreign)}"
        notes.append(Note("not-of-the-job", message, "report it by itself"))
    if by_name:
        notes.append(Note("ranks-by-name", "which rank a file is of is told by its name alone", level="note"))
    return Job(tuple(sorted(files, key=lambda one: (one.rank is None, one.rank or 0, one.path))), tuple(notes))


def _rank_of(place: Path, reader: Reader) -> int | InputError | None:
    """Return the number of a rank as its own file tells it; the error where that is damaged."""
    if isinstance(reader, Holder):
        return _recorded(place / RECORD)
    if reader.FORMAT != nsys.FORMAT or nsys.looks_like_report(place):
        return None
    from tcprobe.readers.nsys.recording import peek_rank

    try:
        return peek_rank(place)
    except InputError as error:
        return error


def _recorded(record: Path) -> int | None:
    rank = read_object(record).get("rank")
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else None


def _named(place: Path, folder: Path) -> int | None:
    found = _NAMED.findall(str(place.relative_to(folder)))
    return int(found[-1]) if found else None
