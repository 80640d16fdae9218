"""`report` of a job: each rank is read, analysed and reduced to its tables, and these are joined in a tree.

Files are read one after the other; many of them by processes beside one another, or on a Dask cluster. All join in the
same shape, so that they give the same figures.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.context import Options
from tcprobe.analysis.ranks.clocks import Moments, moments_of
from tcprobe.analysis.ranks.part import Part, joined, part_of, tree
from tcprobe.analysis.ranks.whole import Unread, whole
from tcprobe.errors import InputError, MeasurementFailed, TcprobeError, ToolError, UsageError
from tcprobe.readers.open import Job, RankFile
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


MANY: Final = 16  # files: of fewer, to start processes takes longer than it saves
CHUNK: Final = 32  # files that a process reads one after the other; a power of two, as the tree is


def report_job(path: Path, job: Job, options: Options, analyse: Analyse, scheduler: str | None = None) -> Profile:
    """Return the report of a job's ranks.

    Args:
        path: the folder that the user named.
        job: its ranks.
        options: of each.
        analyse: opens and analyses the profile of one.
        scheduler: address of a Dask scheduler, whose workers read the files; None reads them here.

    Raises:
        UsageError: no rank can be read, or no scheduler answers.
        ToolError: a process or worker that reads files fails.
    """
    if scheduler is not None:
        made = reduce_on_cluster(scheduler, job.files, Task(options, analyse))
    elif len(job.files) >= MANY and (processes := len(os.sched_getaffinity(0))) > 1:
        made = _reduce_beside(job.files, Task(options, analyse), processes)
    else:
        made = reduce_files((), job.files, Task(options, analyse))
    if made.part is None:
        first = made.unread[0]
        raise UsageError(
            f"{path}: none of {len(job.files)} ranks can be read: {first.source}: {first.why}", first.remedy
        )
    return whole(made.part, str(path), made.unread, some=job.some).with_notes(*job.notes)


def _reduce_beside(files: Sequence[RankFile], task: Task, processes: int) -> Reduced:
    """Read files in processes of their own, so many at a time."""
    head, reference = head_of(files, lambda file: reduce_file(file, task, None))
    work = partial(_in_process, task=Task(task.options, task.analyse, reference))
    with ThreadPoolExecutor(processes) as pool:
        found: Reduced = tree(pool.map(work, chunks_of(files, head, CHUNK)), join_reduced)
    return found


def _in_process(chunk: tuple[Sequence[Reduced], Sequence[RankFile]], task: Task) -> Reduced:
    command = [sys.executable, "-c", f"from {__name__} import work; work()"]
    orders = pickle.dumps((*chunk, task))
    done = subprocess.run(command, input=orders, stdout=subprocess.PIPE)
    if done.returncode:
        ended = f"ended with {done.returncode}"
        raise ToolError(
            f"a process that read {len(chunk[1])} ranks {ended}", "it may have lacked memory: see what it printed"
        )
    found: Reduced = pickle.loads(done.stdout)
    return found


def work() -> None:
    """Read the files that standard input names, and write what is left of them to standard output."""
    made = reduce_files(*pickle.load(sys.stdin.buffer))
    pickle.dump(made, sys.stdout.buffer)


CLUSTER_CHUNK: Final = 8  # files of a task; a power of two, as the tree is
ANSWER_SECONDS: Final = 20
RETRIES: Final = 2  # of a task whose worker fails; Dask itself runs those of a worker that dies again


def reduce_on_cluster(address: str, files: Sequence[RankFile], task: Task) -> Reduced:
    """Return what is left of the files of a job, read by the workers of a scheduler.

    Args:
        address: of the scheduler (``tcp://host:8786``).
        files: which the workers find under the same absolute path.
        task: how each is read.

    Raises:
        UsageError: Dask is not installed, or no scheduler answers there.
        ToolError: the workers cannot run tcprobe, or all that tried a task died.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise UsageError("--scheduler needs Dask, which is not installed", "pip install 'tcprobe[dask]'") from error
    try:
        client = distributed.Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        hint = "as in --scheduler tcp://host:8786; `dask scheduler` prints its address"
        raise UsageError(f"--scheduler {address}: no scheduler of Dask answers there", hint) from error
    with client:
        try:
            return _reduced(client, [replace(file, path=Path(file.path).absolute()) for file in files], task)
        except (ImportError, AttributeError, RuntimeError, OSError) as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise ToolError(
                f"--scheduler {address}: the workers do not read the ranks: {said}",
                "each worker needs this version of tcprobe, and the folder under the same path",
            ) from error


def _reduced(client: Any, files: Sequence[RankFile], task: Task) -> Reduced:
    submit = partial(client.submit, pure=False, retries=RETRIES)
    head, reference = head_of(files, lambda file: submit(reduce_file, file, task, None).result())
    whole = client.scatter(Task(task.options, task.analyse, reference), broadcast=True)
    chunks = (submit(reduce_files, before, those, whole) for before, those in chunks_of(files, head, CLUSTER_CHUNK))
    found: Reduced = tree(chunks, partial(submit, join_reduced)).result()
    return found
