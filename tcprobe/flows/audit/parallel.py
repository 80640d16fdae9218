"""Source mode for many files, in one process per core."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Final

from tcprobe.errors import TcprobeError
from tcprobe.flows.audit.files import AuditFile, FailedFile
from tcprobe.flows.audit.models import Auditor, PartialAudit
from tcprobe.flows.audit.options import AuditOptions, Choice
from tcprobe.hardware import Gpu

AT_ONCE: Final = 8
"""Files per task: enough to make passing results cheap, few enough to keep all processes busy."""


def audit_in_parallel(
    options: AuditOptions, choice: Choice, gpu: Gpu, files: Sequence[AuditFile]
) -> Iterator[tuple[PartialAudit, list[FailedFile]]]:
    """Yield what was found, in the order of the files, and which files could not be audited."""
    chunks = [files[start : start + AT_ONCE] for start in range(0, len(files), AT_ONCE)]
    pool = ProcessPoolExecutor(min(cores(), len(chunks)), get_context("fork"), initializer=_leave_interrupts)
    try:
        yield from pool.map(partial(_audit, options, choice, gpu), chunks)
    finally:
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _leave_interrupts() -> None:
    """Ignore Ctrl-C, which reaches every process of the terminal: only the main one answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _audit(
    options: AuditOptions, choice: Choice, gpu: Gpu, files: Sequence[AuditFile]
) -> tuple[PartialAudit, list[FailedFile]]:
    auditor = Auditor(options, choice, gpu, traced=False)
    return auditor.part(), add_all(auditor, files)


def add_all(auditor: Auditor, files: Sequence[AuditFile]) -> list[FailedFile]:
    """Audit files; return the path of each that cannot be audited, and why."""
    failed = []
    for target in files:
        try:
            auditor.add(target)
        except TcprobeError as error:
            failed.append((str(target.path), error.message.removeprefix(f"{target.named}: ")))
    return failed
