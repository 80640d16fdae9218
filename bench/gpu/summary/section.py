"""What the sections of a summary share: where the results come from, and how tables and JSON files are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tcprobe.hardware import Capability, find_gpu

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
    try:
        told = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        told = {}
    told = told if isinstance(told, dict) else {}
    gpu = told.get("gpu")
    major, _, minor = str(told.get("nvidia_smi", {}).get("compute_cap", "")).partition(".")
    capability = (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
    if capability is None and gpu:
        capability = find_gpu(gpu).compute_capability
    return About(folder, told, gpu, capability, bool(told.get("dry_run")))


def read_json(path: Path) -> Data:
    """Return an object of a JSON file; empty where it is missing, damaged or no object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
