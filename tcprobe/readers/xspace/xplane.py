"""Read XSpace files (``*.xplane.pb``): the profiles of TensorFlow 2.2 and later, and of JAX."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tcprobe.errors import EmptyInput, WrongFormat
from tcprobe.foreign import below, head, opened
from tcprobe.progress import begin
from tcprobe.readers.arrays import PADDING, Bytes
from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.hlo.gemms import unread_calls
from tcprobe.readers.host_work import stretches
from tcprobe.readers.one_run import not_one_run, session_of, several_runs
from tcprobe.readers.protobuf import BYTES, VARINT, Buffer, DamagedError, fields, varint
from tcprobe.readers.xspace.gpu import GPU_PLANE, Gpu, read_gpu
from tcprobe.readers.xspace.host import HOST_PLANES, Host, HostEvents, read_host
from tcprobe.readers.xspace.tables import HostFile, tables
from tcprobe.readers.xspace.wire import Space, plane_stats, scan_space, string_map
from tcprobe.readers.xspace.xla import read_modules, resolve_graphs
from tcprobe.schema.profile import Metadata, Note, NoteLevel, Profile

FORMAT: Final = "xplane"
WHAT: Final = "*.xplane.pb of TensorFlow or JAX"
WHY_EMPTY: Final = (
    "TensorFlow leaves one where no space is left on the disk, or where a profile passes 2 GiB: make room, or profile "
    "fewer steps"
)
_SUFFIX: Final = ".xplane.pb"
MOST_BYTES: Final = 4 << 30  # no message of protobuf reaches 2 GiB: twice that is none
_HEAD: Final = 4096  # bytes in which a plane shows its name


def finds(path: Path) -> list[Path]:
    """Return the XSpace files that `path` holds, by content; an empty ``*.xplane.pb`` counts too.

    TensorFlow leaves an empty file where the disk is full or a profile passes 2 GiB, which `read` then explains.
    """
    if not path.is_dir():
        return [path] if _looks_right(path) else []
    return [p for p in below(path, lambda name: name.endswith(".pb")).files if _looks_right(p)]


def _looks_right(path: Path) -> bool:
    """Whether the file begins like an XSpace: a plane that has a name."""
    start = head(path, _HEAD)
    if not start:
        return start is not None and path.name.endswith(_SUFFIX)
    return start[0] == 0x0A and _shows_a_plane(start)


def _shows_a_plane(start: bytes) -> bool:
    """Whether the first bytes of a file are a plane up to its name; the plane may be cut off after that."""
    kinds = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: BYTES, 6: BYTES}
    try:
        _, at = varint(start, 1, len(start))
        for number, wire, first, last in fields(start, (at, len(start))):
            if kinds.get(number) != wire:
                return False
            if number == 2:
                return last > first and start[first:last].isascii()
    except DamagedError:
        pass
    return False


def read(files: list[Path]) -> Profile:
    """Read the files of one session, one per host, into one Profile; GPUs are numbered through the hosts.

    Raises:
        InputError: a file is missing, empty, unreadable, or no whole XSpace.
        UsageError: the files are not the hosts of one run; the message lists them.
    """
    if not files:
        raise EmptyInput("no file", "there is no XSpace to read")
    check_place(files)
    parts: list[HostFile] = []
    for path in files:
        after = max((part.first_device + gpu.ordinal + 1 for part in parts for gpu in part.gpus), default=0)
        parts.append(_read_file(path, after))
    check_hosts(parts)
    with _whole(files[0] if len(files) == 1 else files[0].parent):
        return _profile(files, parts)


def _read_file(path: Path, first_device: int) -> HostFile:
    file = Bytes(_load(path))
    with _whole(path):
        return _read_space(file, scan_space(file.data, file.size), path, first_device)


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Tell damage as an error of the file; some of a module's shows only where its products are listed."""
    try:
        yield
    except DamagedError as error:
        raise WrongFormat(path, f"damaged XSpace: {error}", "profile again, or copy the file again") from error


def _load(path: Path) -> Buffer:
    """Return the file's bytes and the padding that array code needs."""
    with opened(path, MOST_BYTES) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        data = _memory(size + PADDING)
        read = file.readinto(memoryview(data)[:size])  # type: ignore[attr-defined]
    if not size:
        raise EmptyInput(path, "empty file", WHY_EMPTY)
    if read != size:
        raise WrongFormat(path, f"{read} of {size} bytes could be read", "wait until it is written, then try again")
    return data


def _memory(size: int) -> mmap.mmap:
    """Return zeros, in large pages where the system has them: to get it in small ones takes longer than to fill it."""
    data = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            data.madvise(mmap.MADV_HUGEPAGE)
    return data


def _read_space(file: Bytes, space: Space, path: Path, first_device: int) -> HostFile:
    if not any(plane.name for plane in space.planes) and not space.errors:
        raise WrongFormat(path, "no XSpace: it has no named plane", "give a *.xplane.pb of the TensorFlow profiler")
    planes = [plane for plane in space.planes if GPU_PLANE.fullmatch(plane.name)]
    if len(planes) > MOST_DEVICES:
        raise DamagedError(f"{len(planes)} GPUs on one host")
    hosts = [plane for plane in space.planes if plane.name in HOST_PLANES]
    begin(f"reading {path.name}", sum(end - start for plane in (*planes, *hosts) for start, end in plane.lines))
    gpus = [read_gpu(file, plane) for plane in planes]
    host = Host(events=HostEvents(stretches([(gpu.kernels.start_ns, gpu.kernels.duration_ns) for gpu in gpus])))
    for gpu in gpus:
        host.events.add_overheads(gpu.overheads)
    for plane in hosts:
        read_host(file, plane, host)
    wanted = {op.program for gpu in gpus for op in gpu.kernels.ops} | {program for _, program in host.hlo_ops}
    ran = {program for program in wanted if program is not None}
    modules = read_modules(file.data, space.planes, ran)
    missing = len(ran - modules.keys())
    for gpu in gpus:
        gpu.kernels = resolve_graphs(gpu.kernels, modules)
    return HostFile(path, space, first_device, gpus, host, modules, started_ns(file.data, space), missing)


def _profile(session: list[Path], parts: list[HostFile]) -> Profile:
    gpus = [gpu for part in parts for gpu in part.gpus]
    made, absent, more = tables(parts)
    said = [note for part in parts for note in said_notes(part.space)]
    metadata = Metadata(
        format=FORMAT,
        paths=tuple(str(path) for path in session),
        profiler="the profiler of TensorFlow or JAX (XSpace)",
        host=", ".join(dict.fromkeys(h for part in parts for h in part.space.hosts)) or None,
        xla=True if any(part.modules for part in parts) else None,
        gpu_used=bool(gpus),
        notes=tuple(
            dict.fromkeys(
                (
                    *said,
                    *(gpu_notes(gpus) if gpus else ()),
                    *tpu_notes(parts),
                    *_host_notes(parts),
                    *_xla_notes(parts),
                    *more,
                )
            )
        ),
    )
    return Profile(metadata, {table.spec.name: table for table in made}, absent, frozenset({"shows_xla"}))


def _host_notes(parts: list[HostFile]) -> Iterator[Note]:
    """Yield which GPUs are whose, where several hosts were profiled."""
    if len(parts) > 1:
        owned = [f"{', '.join(part.space.hosts) or part.path.name}: {_range(part)}" for part in parts if part.gpus]
        if owned:
            yield Note("several-hosts", f"GPUs by host: {'; '.join(owned)}", level="note")


def _xla_notes(parts: list[HostFile]) -> Iterator[Note]:
    """Yield what is not known of the modules that ran: products of theirs may be missing."""
    lacking = sum(part.no_module for part in parts)
    if lacking and any(part.modules for part in parts):
        message = f"the profile lacks {lacking} of the HLO modules that ran: their products are not known"
        yield Note("xla-modules-missing", message, level="note")
    targets = sorted({t for part in parts for module in part.modules.values() for t in unread_calls(module)})
    if targets:
        message = f"what XLA multiplies by calling {', '.join(targets)} is not counted among its products"
        yield Note("xla-calls-unread", message, level="note")


def _range(part: HostFile) -> str:
    numbers = [part.first_device + gpu.ordinal for gpu in part.gpus]
    return f"{min(numbers)}-{max(numbers)}" if len(numbers) > 1 else str(numbers[0])


# The hosts of a run start their profilers at one step, or when one remote request reaches them.
FARTHEST_NS: Final = 300 * 10**9
ENVIRONMENT: Final = "Task Environment"
KIND: Final = ("device_vendor", "compute_cap_major", "compute_cap_minor")


def check_place(files: Sequence[Path]) -> None:
    """Refuse several files that do not lie together in one folder ``plugins/profile/SESSION``.

    Raises:
        UsageError: lists the folders or files, the newest first.
    """
    if len(files) < 2:
        return
    if len({file.parent for file in files}) > 1:
        raise several_runs(Path(os.path.commonpath(files)), files)
    if session_of(files) is None:
        raise not_one_run(files, "the folder is not plugins/profile/SESSION")


def check_hosts(parts: Sequence[HostFile]) -> None:
    """Refuse files of one session folder that cannot be the hosts of one run.

    Raises:
        UsageError: two are of one host, their GPUs differ, or they were recorded minutes apart.
    """
    why = next(_differences(parts), None) if len(parts) > 1 else None
    if why:
        raise not_one_run([part.path for part in parts], why)


def _differences(parts: Sequence[HostFile]) -> Iterator[str]:
    hosts = [host for part in parts for host in part.space.hosts or [part.path.name]]
    if twice := next((host for host in hosts if hosts.count(host) > 1), None):
        yield f"two are of host {twice}"
    started = [part.started_ns for part in parts if part.started_ns is not None]
    if started and max(started) - min(started) > FARTHEST_NS:
        yield f"they were recorded {(max(started) - min(started)) // 60_000_000_000} minutes apart"
    kinds = {tuple(gpu.stats.get(key) for key in KIND) for part in parts for gpu in part.gpus}
    if len(kinds) > 1:
        yield "their GPUs differ"


def started_ns(data: Buffer, space: Space) -> int | None:
    """Return when the capture began, in ns since the epoch; None where the file does not say (until TF 2.15)."""
    for plane in space.planes:
        if plane.name == ENVIRONMENT:
            found = plane_stats(data, plane.stats, string_map(data, plane.stat_metadata)).get("profile_start_time")
            return found if isinstance(found, int) else None
    return None


EVENT_CAP: Final = 2 * 1024 * 1024  # CUPTI tracer of xla/backends/profiler/gpu: max_activity_api_events
SHORTEN: Final = "profile fewer steps"

# text in XSpace.errors or warnings -> code, remedy; the first that fits
_SAID: Final = (
    (
        ("INSUFFICIENT_PRIVILEGES", "insufficient privilege", "NVreg_RestrictProfilingToAdminUsers"),
        "cupti-permission",
        "set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia kernel module, or run with CAP_SYS_ADMIN",
    ),
    (
        ("libcupti", "CUPTI_ERROR_NOT_INITIALIZED", "cupti is not available"),
        "cupti-missing",
        "install the CUPTI of TensorFlow's CUDA version and put it on LD_LIBRARY_PATH",
    ),
    (
        ("MULTIPLE_SUBSCRIBERS", "already in use", "another profiler"),
        "cupti-busy",
        "run under one profiler at a time",
    ),
    (("reaches max", "max_activity_api_events"), "event-cap", SHORTEN),
    (("dropped", "Dropped"), "events-lost", SHORTEN),
)


def said_notes(space: Space) -> Iterator[Note]:
    """Yield a note for each error and warning that the profiler left in the file."""
    levels: tuple[tuple[NoteLevel, list[str]], ...] = (("error", space.errors), ("warning", space.warnings))
    for level, texts in levels:
        for text in dict.fromkeys(texts):
            fits = (known for known in _SAID if any(needle.lower() in text.lower() for needle in known[0]))
            _, code, remedy = next(fits, ((), f"profiler-{level}", None))
            yield Note(code, f"the profiler says: {' '.join(text.split())[:300]}", remedy, level)


def gpu_notes(gpus: Sequence[Gpu]) -> Iterator[Note]:
    """Yield notes on what the GPU planes hold and lack."""
    recorded = sum(len(gpu.kernels) + len(gpu.memory) for gpu in gpus)
    if not any(len(gpu.kernels) for gpu in gpus):
        yield Note(
            "gpu-plane-empty",
            f"the profile has {len(gpus)} GPU plane{'s' * (len(gpus) != 1)} and no kernel: the GPU was not measured",
            "check that the steps ran on the GPU, that the CUPTI of TensorFlow's CUDA version is on LD_LIBRARY_PATH, "
            "and that the driver lets users profile (NVreg_RestrictProfilingToAdminUsers=0)",
            "error",
        )
    if recorded >= EVENT_CAP:
        message = f"the profile holds {recorded} GPU events, the most that the tracer keeps: later ones are missing"
        yield Note("event-cap", message, SHORTEN)
    yield from _vendor_notes(gpus)
    yield from _odd_event_notes(gpus)


TPU_PLANE: Final = re.compile(r"/device:TPU:\d+|#Chip.*")


def tpu_notes(parts: Sequence[HostFile]) -> Iterator[Note]:
    """Yield that a profile is of a TPU, whose planes say nothing of a GPU."""
    planes = [plane.name for part in parts for plane in part.space.planes if TPU_PLANE.match(plane.name)]
    if planes and not any(part.gpus for part in parts):
        message = f"the profile is of a TPU ({planes[0]}), not of a GPU: only its host is read"
        yield Note("tpu-profile", message, "give the profile of a run on an NVIDIA GPU; XProf shows this one")


def _vendor_notes(gpus: Sequence[Gpu]) -> Iterator[Note]:
    vendors = {str(gpu.stats["device_vendor"]) for gpu in gpus if "device_vendor" in gpu.stats}
    for vendor in sorted(v for v in vendors if v.lower() != "nvidia"):
        yield Note("not-nvidia", f"the GPU is of {vendor}, not an NVIDIA GPU: Tensor Cores do not apply", None)


def _odd_event_notes(gpus: Sequence[Gpu]) -> Iterator[Note]:
    launches = sum(gpu.graph_launches for gpu in gpus)
    if launches:
        yield Note(
            "cuda-graphs",
            f"{launches} CUDA graph launches are recorded as one event each: the kernels inside them are missing",
            "profile with XLA_FLAGS=--xla_gpu_enable_command_buffer=",
        )
    unclassed = sum(gpu.unclassed for gpu in gpus)
    if unclassed:
        yield Note("gpu-events-unclassed", f"{unclassed} GPU events are neither kernels nor copies and not counted")
