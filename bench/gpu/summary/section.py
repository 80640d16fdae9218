"""What the sections of a summary share: where the results come from, and how tables and JSON files are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.gpu.machine import capability_of
from tcprobe.errors import InputError
from tcprobe.hardware import Capability
from tcprobe.jsonfile import read_object
from tcprobe.readers.ncu.launches import read_launches

Data = dict[str, Any]
FAKE = "FAKE"


@dataclass(frozen=True, slots=True)
class About:
    """What provenance says that sections need.

    Attributes:
        folder: of the results.
        provenance: all of it; empty where there is none.
        gpu: id of the GPU; None on a rehearsal, or for one that gpus.csv lacks.
        capability: of the GPU; None if unknown.
        dry: a rehearsal: fake counters, times of a CPU.
    """

    folder: Path
    provenance: Mapping[str, Any]
    gpu: str | None
    capability: Capability | None
    dry: bool

    def framework(self, unit: str) -> tuple[str, str] | None:
        """Return name and version of the framework that a unit's name ends with or holds; None where it holds none."""
        known = self.provenance.get("frameworks", {})
        return next(((name, known[name]["version"]) for name in known if name in re.split("[-.]", unit)), None)


class Section(Protocol):
    """A module of the summary. What it needs of a part's room it imports in `make`, whose failure costs no other.

    Attributes:
        TITLE: its heading; its first word in small letters is its key in summary.json.
    """

    TITLE: str

    def make(self, about: About) -> Data:
        """Return what it says, as JSON can hold it; parts that were not recorded are missing or empty."""
        ...

    def show(self, data: Data, dry: bool) -> Iterator[str]:
        """Yield the lines of its page."""
        ...


def about(folder: Path) -> About:
    """Return where results come from; nothing is known where provenance.json is missing or damaged."""
    told = read_object(folder / "provenance.json")
    gpu = told.get("gpu")
    capability = capability_of(told.get("nvidia_smi") or {}, gpu) or _counted_on(folder)
    return About(folder, told, gpu, capability, bool(told.get("dry_run")))


def _counted_on(folder: Path) -> Capability | None:
    """Return the compute capability in Nsight Compute's own tables, where nothing else tells it."""
    launches = (launch for path in sorted(folder.glob("*/*/ncu.csv.gz")) for launch in read_launches(path))
    try:
        return next((launch.capability for launch in launches), None)
    except InputError:
        return None
