"""`report` of a job: each rank is read, analysed and reduced to its tables, one after the other or beside others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from tcprobe.analysis.options import Options
from tcprobe.analysis.ranks.clocks import Moments, moments_of
from tcprobe.analysis.ranks.part import Part, part_of, tree
from tcprobe.analysis.ranks.whole import Unread, whole
from tcprobe.errors import InputError, MeasurementFailed, TcprobeError, UsageError
from tcprobe.readers.job import Job, RankFile
from tcprobe.schema.profile import Profile

Analyse: TypeAlias = Callable[[Path, Options], Profile]
"""Opens and analyses one rank."""
LEFT_OUT: Final = (InputError, UsageError, MeasurementFailed)
"""What keeps one rank from being read, and no other."""


def report_job(path: Path, job: Job, options: Options, analyse: Analyse) -> Profile:
    """Return the report of a job's ranks.

    Args:
        path: the folder that the user named.
        job: its ranks.
        options: of each.
        analyse: opens and analyses the profile of one.

    Raises:
        TcprobeError: no rank can be read; it is the error of the first.
    """
    unread: list[Unread] = []
    part = tree(_parts(job.files, options, analyse, unread))
    if part is None:
        raise UsageError(f"{path}: none of {len(job.files)} ranks can be read: {unread[0].why}", unread[0].remedy)
    return whole(part, str(path), unread, some=job.some).with_notes(*job.notes)


def _parts(files: Iterable[RankFile], options: Options, analyse: Analyse, unread: list[Unread]) -> Iterator[Part]:
    """Yield what is kept of each rank; what cannot be read is added to `unread`."""
    reference: Moments | None = None
    for file in files:
        made = reduce_rank(file, options, analyse, reference)
        if isinstance(made, Unread):
            unread.append(made)
            continue
        part, moments = made
        reference = reference or moments
        yield part


def reduce_rank(
    file: RankFile, options: Options, analyse: Analyse, reference: Moments | None
) -> tuple[Part, Moments | None] | Unread:
    """Return what is kept of one rank, with the moments that it shares with others, or why it cannot be read.

    Args:
        file: of the rank.
        options: of its report.
        analyse: opens and analyses it.
        reference: the moments of the rank whose clock counts; None: its own.
    """
    try:
        profile = analyse(file.path, options)
    except LEFT_OUT as error:
        return _unread(file, error)
    moments = moments_of(profile)
    return part_of(profile, file.rank, moments, reference or moments), None if reference else moments


def _unread(file: RankFile, error: TcprobeError) -> Unread:
    why = error.found if isinstance(error, InputError) else error.message
    return Unread(str(file.path), file.rank, why, error.hint)
