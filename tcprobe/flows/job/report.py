"""`report` of a job: each rank is read, analysed and reduced to its tables, and these are joined in a tree.

Files are read one after the other; many of them by processes beside one another, or on a Dask cluster. All join in the
same shape, so that they give the same figures.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from tcprobe.analysis.context import Options
from tcprobe.analysis.ranks.part import tree
from tcprobe.analysis.ranks.whole import whole
from tcprobe.errors import ToolError, UsageError
from tcprobe.flows.job.parts import (
    Analyse,
    Reduced,
    Task,
    chunks_of,
    head_of,
    join_reduced,
    reduce_file,
    reduce_files,
)
from tcprobe.readers.job import Job, RankFile
from tcprobe.schema.profile import Profile

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
        from tcprobe.flows.job.cluster import reduce_on_cluster

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
