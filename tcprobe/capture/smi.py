"""What `nvidia-smi` says of this machine's GPUs and driver: the one place where its output is read."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

PROGRAM: Final = "nvidia-smi"
ANSWER_SECONDS: Final = 20
FIELDS: Final = ("index", "name", "driver_version", "memory.total", "mig.mode.current", "compute_cap")
"""What is asked of each GPU, the field that came last at the end: older drivers know the first ones alone."""
OLDEST: Final = 4
MIB: Final = 2**20
_CSV: Final = ("--format=csv,noheader,nounits",)

SmiFailure = Literal[
    "smi_missing",  # there is no such program
    "smi_silent",  # it gave no answer in time
    "driver_mismatch",  # its library is of another version than the module in the kernel
    "driver_absent",  # no driver answers it
    "no_devices",  # the driver has no GPU
    "smi_failed",  # anything else
]
_FAILURES: Final[tuple[tuple[str, SmiFailure], ...]] = (
    ("driver/library version mismatch", "driver_mismatch"),
    ("couldn't communicate with the nvidia driver", "driver_absent"),
    ("driver not loaded", "driver_absent"),
    ("no devices were found", "no_devices"),
)
UNKNOWN_FIELD: Final = "is not a valid field to query"


class Answer(NamedTuple):
    """The lines of a query, or why there are none."""

    rows: tuple[tuple[str, ...], ...] = ()  # a GPU each; a value per field that was asked
    failure: SmiFailure | None = None
    text: str = ""  # what it printed last where it failed


class Device(Struct, frozen=True):
    """One GPU; None where the driver does not say."""

    index: int
    name: str
    driver: str | None  # version of the driver
    memory_bytes: int | None
    capability: tuple[int, int] | None  # major, minor
    mig: bool  # whether it is divided by MIG, and only its instances can be used
    instances: tuple[str, ...] = ()  # names of these, as in ``1g.10gb``


def is_there() -> bool:
    """Whether there is an nvidia-smi to ask."""
    return shutil.which(PROGRAM) is not None


def query(fields: Sequence[str], seconds: float | None = None) -> Answer:
    """Ask for fields of each GPU (``nvidia-smi --help-query-gpu``)."""
    return _told(["--query-gpu=" + ",".join(fields), *_CSV], len(fields), seconds)


def compute_processes(seconds: float) -> Answer:
    """Ask which processes compute: the UUID of the GPU and the number of the process."""
    return _told(["--query-compute-apps=gpu_uuid,pid", *_CSV], 2, seconds)


def stream(fields: Sequence[str], period_ms: int) -> subprocess.Popen[str] | None:
    """Start to ask for fields of each GPU again and again; the lines are for `divided`. None where it cannot start.

    It is in a session of its own, so that Ctrl-C is not for it, and ends when nobody reads its lines any more.
    """
    words = [PROGRAM, "--query-gpu=" + ",".join(fields), *_CSV, f"--loop-ms={period_ms}"]
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError:
        return None


def divided(line: str) -> tuple[str, ...]:
    """Return the values of a line of CSV."""
    return tuple(part.strip() for part in line.split(","))


def devices() -> tuple[tuple[Device, ...], Answer]:
    """Return the GPUs of this machine, and the answer, which says why there are none."""
    for count in range(len(FIELDS), OLDEST - 1, -1):
        answer = query(FIELDS[:count])
        if UNKNOWN_FIELD not in answer.text:
            break
    found = [_device(row) for row in answer.rows]
    divided = _instances() if any(device.mig for device in found) else {}
    return tuple(replace(device, instances=divided.get(device.index, ())) for device in found), answer


def _device(row: tuple[str, ...]) -> Device:
    index, name, driver, memory, mig, capability = (*row, "", "")[: len(FIELDS)]
    version = re.fullmatch(r"(\d+)\.(\d+)", capability)
    return Device(
        int(index) if index.isdigit() else 0,
        name,
        driver if re.fullmatch(r"[\d.]+", driver) else None,
        int(memory) * MIB if memory.isdigit() else None,
        (int(version[1]), int(version[2])) if version else None,
        mig.lower() == "enabled",
    )


def _instances() -> dict[int, tuple[str, ...]]:
    """Return the MIG instances of each GPU, as ``nvidia-smi -L`` lists them below it."""
    found: dict[int, list[str]] = {}
    for (line,) in _told(["-L"], 1).rows:
        if gpu := re.match(r"GPU (\d+):", line):
            found[int(gpu[1])] = []
        elif found and (part := re.match(r"MIG (\S+)", line)):
            found[max(found)].append(part[1])
    return {index: tuple(names) for index, names in found.items()}


def _told(words: list[str], width: int, seconds: float | None = None) -> Answer:
    """Run nvidia-smi and return its lines, divided at commas into as many values as `width`; others are dropped."""
    if (program := shutil.which(PROGRAM)) is None:
        return Answer(failure="smi_missing")
    try:
        done = subprocess.run(
            [program, *words],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds or ANSWER_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Answer(failure="smi_silent")
    except OSError as error:
        return Answer(failure="smi_failed", text=error.strerror or "")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    rows = [divided(line) if width > 1 else (line,) for line in lines]
    kept = tuple(row for row in rows if len(row) == width)
    lines += [line.strip() for line in done.stderr.splitlines() if line.strip()]
    said = " ".join(lines).lower()
    failure = next((kind for text, kind in _FAILURES if text in said), None)
    if done.returncode == 0 and (kept or not lines) and failure is None:
        return Answer(kept)
    return Answer(failure=failure or "smi_failed", text=lines[0][:200] if lines else f"exit code {done.returncode}")
