"""Source mode for many files, in one process per core."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import active_children, get_context
from typing import Final, TypeAlias

from tcprobe.flows.audit.files import AuditFile, FailedFile
from tcprobe.flows.audit.models import Auditor, PartialAudit
from tcprobe.flows.audit.options import Choice
from tcprobe.hardware import Gpu

AT_ONCE: Final = 8
"""Files per task: enough to make passing results cheap, few enough to keep all processes busy."""
DIED: Final = "the process that read it was killed, as when memory runs out"
_Found: TypeAlias = tuple[PartialAudit, list[FailedFile]]
_Audit: TypeAlias = Callable[[Sequence[AuditFile]], _Found]


def audit_in_parallel(
    choice: Choice, gpu: Gpu, files: Sequence[AuditFile]
) -> Iterator[tuple[PartialAudit, list[FailedFile]]]:
    """Yield what was found and which files could not be audited: in the order of the files, what a death undid last.

    Where a process dies (killed, out of memory) all that it and its pool still had to do is done again file by file,
    so that only the file on which it died is lost.
    """
    chunks = [files[start : start + AT_ONCE] for start in range(0, len(files), AT_ONCE)]
    audit = partial(_audit, choice, gpu)
    lost: list[AuditFile] = []
    for chunk, found in zip(chunks, _in_pool(audit, chunks, min(cores(), len(chunks))), strict=True):
        if found is not None:
            yield found
        else:
            lost += chunk
    while lost:  # the first file of a pool of one process is the one that it died on
        for found in _in_pool(audit, [[file] for file in lost], 1):
            file, *lost = lost
            yield found or (PartialAudit(), [(str(file.path), DIED)])
            if found is None:
                break


def _in_pool(audit: _Audit, chunks: Sequence[Sequence[AuditFile]], processes: int) -> Iterator[_Found | None]:
    """Yield what processes find in chunks of files, in their order; None for each that a death has left undone."""
    pool = ProcessPoolExecutor(processes, get_context("fork"), initializer=_end_at_interrupts)
    finished = False
    try:
        for future in [pool.submit(audit, chunk) for chunk in chunks]:
            try:
                yield future.result()
            except BrokenProcessPool:
                yield None
        finished = True
    finally:
        for process in () if finished else active_children():
            process.terminate()
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _end_at_interrupts() -> None:
    """End at Ctrl-C, which reaches every process of the terminal, without a word: the main one answers it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _audit(choice: Choice, gpu: Gpu, files: Sequence[AuditFile]) -> _Found:
    auditor = Auditor(choice, gpu, traced=False)
    return auditor.found, auditor.add_all(files)
