"""Reduce files of ranks to what their report needs, and join that in a tree, in whichever process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from tcprobe.analysis.context import Options
from tcprobe.analysis.ranks.clocks import Moments, moments_of
from tcprobe.analysis.ranks.part import Part, joined, part_of, tree
from tcprobe.analysis.ranks.whole import Unread
from tcprobe.errors import InputError, MeasurementFailed, TcprobeError, UsageError
from tcprobe.readers.job import RankFile
from tcprobe.schema.profile import Profile

Analyse: TypeAlias = Callable[[Path, Options], Profile]
"""Opens and analyses one rank; a function that another process finds by its name."""
LEFT_OUT: Final = (InputError, UsageError, MeasurementFailed)
"""What keeps one rank from being read, and no other."""
HEAD: Final = 8  # files in which one is looked for whose clock is the reference


class Reduced(Struct, frozen=True):
    """What is left of some files: what is kept of their ranks, and which could not be read."""

    part: Part | None = None
    unread: tuple[Unread, ...] = ()
    moments: Moments | None = None  # of the rank whose clock is the reference, where it is among them


class Task(Struct, frozen=True):
    """How every file of a job is read."""

    options: Options
    analyse: Analyse
    reference: Moments | None = None  # whose clock counts; None: that of the first rank that has any


def reduce_files(before: Sequence[Reduced], files: Iterable[RankFile], task: Task) -> Reduced:
    """Return what is left of `before`, and of files that are read one after the other."""
    found: Reduced | None = tree(_each(before, files, task), join_reduced)
    return found or Reduced()


def _each(before: Sequence[Reduced], files: Iterable[RankFile], task: Task) -> Iterator[Reduced]:
    reference = task.reference
    yield from before
    for file in files:
        made = reduce_file(file, task, reference)
        reference = reference or made.moments
        yield made


def reduce_file(file: RankFile, task: Task, reference: Moments | None) -> Reduced:
    """Return what is kept of one rank, or why it cannot be read."""
    try:
        profile = task.analyse(file.path, task.options)
    except LEFT_OUT as error:
        return Reduced(unread=(_unread(file, error),))
    moments = moments_of(profile)
    part = part_of(profile, file.rank, moments, reference or moments)
    return Reduced(part, moments=None if reference else moments)


def _unread(file: RankFile, error: TcprobeError) -> Unread:
    why = error.found if isinstance(error, InputError) else error.message
    return Unread(str(file.path), file.rank, why, error.hint)


def join_reduced(one: Reduced, other: Reduced) -> Reduced:
    """Return what is left of both; of what could not be read there is nothing to join."""
    part = one.part or other.part
    if one.part is not None and other.part is not None:
        part = joined(one.part, other.part)
    return Reduced(part, (*one.unread, *other.unread), one.moments or other.moments)


def head_of(files: Sequence[RankFile], reduce: Callable[[RankFile], Reduced]) -> tuple[list[Reduced], Moments]:
    """Return what is left of the first files, up to the one whose clock is the reference, and its moments."""
    head: list[Reduced] = []
    for file in files[:HEAD]:
        head.append(reduce(file))
        if (found := head[-1].moments) is not None:
            return head, found
    return head, Moments("steps", [], *np.zeros((2, 0), np.int64))  # no clock compares with it


def chunks_of(
    files: Sequence[RankFile], head: Sequence[Reduced], size: int
) -> Iterator[tuple[Sequence[Reduced], Sequence[RankFile]]]:
    """Yield so many files at a time, the first with what is left of those that were read already."""
    for start in range(0, len(files), size):
        taken = len(head) if start == 0 else 0
        yield head if start == 0 else (), files[start + taken : start + size]
