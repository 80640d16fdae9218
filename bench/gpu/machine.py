"""What a machine has: its GPU as the driver says it, frameworks by interpreter, and Nsight Compute."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tcprobe import __version__
from tcprobe.hardware import Capability

FIELDS: Final = (
    "name", "driver_version", "vbios_version", "compute_cap", "memory.total", "power.limit", "clocks.max.sm",
    "clocks.max.memory", "ecc.mode.current", "mig.mode.current", "persistence_mode",
)  # fmt: skip
CLOCKS: Final = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "clocks_throttle_reasons.active")
"""What `nvidia-smi` is asked, once and around each step; nothing names the machine or the board (no UUID, no bus)."""
NCU: Final = ("/usr/local/cuda*/bin", "/usr/local/cuda*/nsight-compute*", "/opt/nvidia/nsight-compute/*")
DISTRIBUTIONS: Final = {"torch": ("torch",), "tensorflow": ("tensorflow", "tensorflow-cpu"), "jax": ("jax",)}
LIBRARIES: Final = re.compile(r"torch|tensorflow\S*|jax\S*|triton|keras|nvidia-(cublas|cudnn|cuda)\S*")
ASK: Final = (
    "import importlib.metadata as m, json, platform; print(json.dumps([platform.python_version(),"
    " {(d.metadata['Name'] or '').lower().replace('_', '-'): d.version for d in m.distributions()}]))"
)
ANSWER_S: Final = 60.0


class Failed(Exception):
    """A step cannot be done, or was not; its text says why."""


class Machine(NamedTuple):
    """GPU 0 by `FIELDS`, by framework the first interpreter that has it and versions there, the path of ncu."""

    smi: Mapping[str, str]
    pythons: Mapping[str, str]
    versions: Mapping[str, Any]
    ncu: str | None

    def provenance(self, dry: bool) -> dict[str, Any]:
        """Return where results come from: no path, no name of the machine or its user."""
        said = answer([self.ncu, "--version"]) if self.ncu else ""
        version = re.search(r"\d+(?:\.\d+){2,}", said)
        commit = answer(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"])
        return {
            "dry_run": dry,
            "gpu": dict(self.smi),
            "versions": dict(self.versions),
            "ncu": version[0] if version else None,
            "tcprobe": __version__,
            "commit": commit.strip() or None,
            "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        }


def capability_of(smi: Mapping[str, str]) -> Capability | None:
    """Return the compute capability that the driver tells; None where it does not."""
    major, _, minor = smi.get("compute_cap", "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def look(pythons: Sequence[str]) -> Machine:
    """Return what this machine has; Failed where an interpreter cannot be run."""
    first: dict[str, str] = {}
    versions: dict[str, Any] = {}
    for python in pythons:
        said = answer([python, "-c", ASK])
        if not said:
            raise Failed(f"{python} is no interpreter of Python that runs: name another with --python")
        version, there = json.loads(said.splitlines()[-1])
        for name, provide in DISTRIBUTIONS.items():
            if name not in first and any(d in there for d in provide):
                first[name] = python
                kept = {one: of for one, of in sorted(there.items()) if LIBRARIES.fullmatch(one)}
                versions[name] = {"python": version, **kept}
    near = [path for place in NCU for path in sorted(Path("/").glob(f"{place[1:]}/ncu"), reverse=True)]
    ncu = shutil.which("ncu") or next(map(str, near), None)
    return Machine(smi(FIELDS), {name: first[name] for name in DISTRIBUTIONS if name in first}, versions, ncu)


def smi(fields: Sequence[str]) -> dict[str, str]:
    """Return what `nvidia-smi` says of GPU 0, without fields that this driver does not know; empty without a GPU."""
    said = answer(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader", "-i", "0"])
    if not said and len(fields) > 1:
        return {name: text for field in fields for name, text in smi([field]).items()}
    return dict(zip(fields, said.strip().split(", "), strict=False)) if said.strip() else {}


def answer(command: Sequence[str]) -> str:
    """Return what a command prints; nothing where it cannot be run, fails, or does not answer."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def run(command: Sequence[str], seconds: float, log: Path, **environment: str) -> int:
    """Run a command in a session of its own, all of which ends with it; return its exit code. Failed where it cannot be
    started, or takes longer."""
    with log.open("ab") as out:
        try:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, **streams, env={**os.environ, **environment}, start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from None
        try:
            return int(process.wait(seconds))
        except subprocess.TimeoutExpired:
            raise Failed(f"took longer than {seconds:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_line(log: Path) -> str:
    """Return the first error of Nsight Compute's or tcprobe's in a log, else the last line; without paths."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("==ERROR==", "tcprobe: error:"))]
    said = next(iter([*errors, *lines[-1:]]), "it printed nothing")
    return re.sub(r"(?:/[^\s/:,'\"]+)+/", "", said)[:300]


def now() -> str:
    """Return the time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
