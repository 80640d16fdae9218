"""Find and read traces of PyTorch's profiler: Chrome-trace JSON, plain or packed."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Final

from tcprobe.errors import InputError
from tcprobe.foreign import GZIP, ZIP, below, head
from tcprobe.readers.merge import stack
from tcprobe.readers.one_run import not_one_run
from tcprobe.schema.profile import Profile

FORMAT: Final = "kineto"
WHAT: Final = "a trace of torch.profiler (*.pt.trace.json, also as .gz or .zip)"
_PEEK: Final = 1 << 18  # bytes on the disk; what users add stands before the events
_TEXT: Final = 1 << 22
_ENDINGS: Final = (".json", ".json.gz", ".json.zip", ".zip", ".gz")
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:|\A\s*\[\s*\{')
# What PyTorch's profiler writes and the Chrome traces of TensorFlow, JAX and browsers do not.
_OURS: Final = re.compile(
    rb'"schemaVersion"\s*:|"deviceProperties"\s*:|"cat"\s*:\s*"(?:cpu_op|Operator|cuda_runtime|python_function)"'
    rb"|PyTorch Profiler"
)


_JOB: Final = b'"distributedInfo"'
_RANK: Final = re.compile(rb'"rank"\s*:\s*(\d{1,9})\b')


def peek_rank(path: Path) -> int | None:
    """Return the rank that a trace is of, without decoding its events; None where it does not tell.

    It stands before the events, or after all of them (seen in a trace of March 2023).

    Raises:
        InputError: the file cannot be read, or not be unpacked.
    """
    before, _, _ = _start(path).partition(b'"traceEvents"')
    told = before.partition(_JOB)[2] or _end(path).rpartition(_JOB)[2]
    found = _RANK.search(told)
    return None if found is None else int(found[1])


def _end(path: Path) -> bytes:
    from tcprobe.readers.kineto.events import BLOCK, text_of

    last = b""
    with text_of(path) as file:
        if not (head(path, len(ZIP)) or b"").startswith((GZIP, ZIP)):
            file.seek(max(0, path.stat().st_size - _PEEK))
        while block := file.read(BLOCK):
            last = last[-_PEEK:] + block
    return last[-_PEEK:]


def finds(path: Path) -> list[Path]:
    """Return the traces at `path`: itself, or those in a directory and below, by content, sorted."""
    if not path.is_dir():
        return [path] if _is_trace(path) else []
    return [one for one in below(path, lambda name: name.lower().endswith(_ENDINGS)).files if _is_trace(one)]


def _is_trace(path: Path) -> bool:
    text = _start(path)
    return text.lstrip()[:1] in (b"{", b"[") and bool(_EVENTS.search(text) and _OURS.search(text))


def _start(path: Path) -> bytes:
    """Return the first bytes of a trace, unpacked as far as a look at its beginning allows."""
    packed = head(path, _PEEK) or b""
    try:
        if packed.startswith(GZIP):
            return zlib.decompressobj(wbits=31).decompress(packed, _TEXT)
        if packed.startswith(ZIP):
            from tcprobe.readers.kineto.events import text_of

            with text_of(path) as file:
                return file.read(_TEXT)
    except (zlib.error, InputError):
        return b""
    return packed


def read(files: list[Path]) -> Profile:
    """Read the traces of one job, one for each rank, into one Profile.

    Raises:
        UsageError: the traces say of no two of them that they are of different ranks: they are runs of their own.
        InputError: a file is damaged, cut off, or holds no op and no kernel.
    """
    from tcprobe.readers.kineto.profile import read_trace

    profiles = [read_trace(FORMAT, path) for path in files]
    ranks = [one.metadata.rank for one in profiles]
    if len(files) > 1 and (None in ranks or len(set(ranks)) < len(ranks)):
        raise not_one_run(files, "nothing in them tells that they are different ranks")
    return stack(sorted(profiles, key=lambda one: one.metadata.rank or 0))
