"""What a machine has: its GPU as the driver says it, frameworks by interpreter, and NVIDIA's profilers."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tcprobe import __version__
from tcprobe.hardware import Capability, find_gpu
from tcprobe.identify import identify

DISTRIBUTIONS: Final = {
    "jax": ("jax",),
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
}
"""Framework -> the distributions that provide it; in the order in which they are measured."""
LIBRARIES: Final = re.compile(
    r"jaxlib|jax-cuda\d+-p\w+|triton|keras|numpy|nvidia-(cublas|cudnn|cuda-cupti|cuda-runtime)\S*"
)
"""Further distributions whose versions decide which kernels run."""
FIELDS: Final = (
    "name", "driver_version", "vbios_version", "compute_cap", "memory.total", "power.limit", "power.max_limit",
    "clocks.max.sm", "clocks.max.memory", "clocks.applications.graphics", "clocks.current.sm", "clocks.current.memory",
    "temperature.gpu", "ecc.mode.current", "mig.mode.current", "persistence_mode", "pcie.link.gen.current",
    "pcie.link.width.current",
)  # fmt: skip
"""What `nvidia-smi` is asked; none of it names the machine or the board's owner (no serial number, UUID or bus)."""
PLACES: Final = ("/usr/local/cuda*/bin", "/usr/local/cuda*/nsight-compute*", "/opt/nvidia/nsight-compute/*")
SYSTEMS: Final = (
    "/usr/local/cuda*/bin",
    "/opt/nvidia/nsight-systems/*/bin",
    "/opt/nvidia/nsight-systems/*/target-linux-*",
)
ANSWER_S: Final = 30.0
ASK: Final = (
    "import importlib.metadata as m, json, platform, re; "
    "print(json.dumps({'python': platform.python_version(), "
    "'found': {re.sub('[-_.]+', '-', d.metadata['Name'] or '').lower(): d.version for d in m.distributions()}}))"
)


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework in an interpreter.

    Attributes:
        name: as imported: jax, torch, tensorflow.
        version: of the distribution.
        python: path of the interpreter.
        python_version: its version.
        libraries: versions of what it runs on (jaxlib, triton, nvidia-cublas...).
    """

    name: str
    version: str
    python: str
    python_version: str
    libraries: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler of NVIDIA's: its path and version."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to measure, and to measure with.

    Attributes:
        gpu: id in gpus.csv of GPU 0; None without a GPU, or for one that gpus.csv lacks.
        smi: what `nvidia-smi` says of GPU 0 by `FIELDS`; empty without a GPU.
        gpus: number of GPUs.
        frameworks: the first interpreter's of each.
        ncu, nsys: Nsight Compute and Nsight Systems; None where there is none.
        further: other versions of these frameworks, in other interpreters.
    """

    gpu: str | None
    smi: Mapping[str, str]
    gpus: int
    frameworks: tuple[Framework, ...]
    ncu: Tool | None
    nsys: Tool | None
    further: tuple[Framework, ...] = ()

    @property
    def all_frameworks(self) -> tuple[Framework, ...]:
        """Return every version of every framework once, the preferred ones first."""
        return (*self.frameworks, *self.further)

    @property
    def capability(self) -> Capability | None:
        """Return the compute capability of GPU 0; None if unknown."""
        return capability_of(self.smi, self.gpu)

    def framework(self, name: str) -> Framework | None:
        """Return a framework by name; None where there is none."""
        return next((framework for framework in self.frameworks if framework.name == name), None)

    def save(self, path: Path) -> None:
        """Write all of it, paths of this machine included."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Machine:
        """Return what `save` wrote."""
        told = json.loads(path.read_text(encoding="utf-8"))
        tools = {name: Tool(**told[name]) if told[name] else None for name in ("ncu", "nsys")}
        frameworks, further = (tuple(Framework(**one) for one in told[name]) for name in ("frameworks", "further"))
        return cls(told["gpu"], told["smi"], told["gpus"], frameworks, **tools, further=further)

    def provenance(self) -> dict[str, Any]:
        """Return what results say of where they come from: no path, no name of the machine."""
        return {
            "gpu": self.gpu,
            "nvidia_smi": dict(self.smi),
            "gpus": self.gpus,
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "frameworks": {
                f.name: {"version": f.version, "python": f.python_version, "libraries": dict(f.libraries)}
                for f in self.frameworks
            },
            "further": [{"name": f.name, "version": f.version, "python": f.python_version} for f in self.further],
            "ncu": self.ncu.version if self.ncu else None,
            "nsys": self.nsys.version if self.nsys else None,
            "tcprobe": __version__,
            **_commit(),
        }


def capability_of(smi: Mapping[str, str], gpu: str | None) -> Capability | None:
    """Return the compute capability that the driver tells, else that of its row in gpus.csv; None if unknown."""
    major, _, minor = smi.get("compute_cap", "").partition(".")
    if major.isdigit() and minor.isdigit():
        return int(major), int(minor)
    return find_gpu(gpu).compute_capability if gpu else None


def look(pythons: Sequence[str]) -> Machine:
    """Return what this machine has; frameworks are looked up, not imported.

    Args:
        pythons: interpreters, the preferred first; this one where there is none.
    """
    rows = _smi()
    smi = rows[0] if rows else {}
    name = smi.get("name")
    memory = re.match(r"\d+", smi.get("memory.total", ""))
    found = identify(None, None, None, float(memory[0]) * 2**20 if memory else None, name=name).gpu if name else None
    frameworks: dict[str, Framework] = {}
    versions: dict[tuple[str, str], Framework] = {}
    for python in pythons or [sys.executable]:
        for framework in _frameworks(python):
            frameworks.setdefault(framework.name, framework)
            versions.setdefault((framework.name, framework.version), framework)
    ordered = tuple(frameworks[name] for name in DISTRIBUTIONS if name in frameworks)
    further = tuple(framework for framework in versions.values() if framework not in ordered)
    ncu, nsys = _tool("ncu", PLACES), _tool("nsys", SYSTEMS)
    return Machine(found.id if found else None, smi, len(rows), ordered, ncu, nsys, further)


def _smi() -> list[dict[str, str]]:
    """Return one dict per GPU; a field that this driver does not know is left out of all."""
    said = _said(["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"])
    names: Iterable[str] = FIELDS
    if said is None and shutil.which("nvidia-smi"):
        names = ("name", "driver_version", "memory.total", "power.limit", "clocks.max.sm")  # of every driver
        said = _said(["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader"])
    return [dict(zip(names, line.split(", "), strict=False)) for line in (said or "").splitlines() if line.strip()]


def _frameworks(python: str) -> list[Framework]:
    said = _said([python, "-c", ASK])
    if said is None:
        return []
    told = json.loads(said.splitlines()[-1])
    found: Mapping[str, str] = told["found"]
    libraries = {name: version for name, version in sorted(found.items()) if LIBRARIES.fullmatch(name)}
    return [
        Framework(name, next(found[d] for d in provide if d in found), python, told["python"], libraries)
        for name, provide in DISTRIBUTIONS.items()
        if any(d in found for d in provide)
    ]


def _tool(name: str, places: Sequence[str]) -> Tool | None:
    """Return a profiler on the PATH, else the newest in NVIDIA's own folders."""
    near = [path for place in places for path in sorted(Path("/").glob(f"{place.lstrip('/')}/{name}"), reverse=True)]
    for path in [shutil.which(name), *map(str, near)]:
        if path and (said := _said([path, "--version"])):
            version = re.search(r"\d+(?:\.\d+){2,}", said)
            return Tool(path, version[0] if version else "unknown")
    return None


def _said(command: Sequence[str]) -> str | None:
    """Return what a command prints; None where it cannot be run, fails, or does not answer."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 and done.stdout.strip() else None


def _cpu() -> str | None:
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return found[1] if found else None


def _commit() -> dict[str, Any]:
    """Return the commit of this checkout, and whether it was changed since; None where git does not say."""
    here = str(Path(__file__).parent)
    commit = _said(["git", "-C", here, "rev-parse", "HEAD"])
    changed = _said(["git", "-C", here, "status", "--porcelain", "--untracked-files=no"])
    return {"commit": commit.strip() if commit else None, "changed": bool(changed) if commit else None}
