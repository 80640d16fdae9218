"""Run a script under the probe as `tcprobe profile` does: a run folder, a copy of the probe, one process."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcprobe.readers.run_folder.folder import read
from tests.support import ROOT


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: the run folder.
        code: exit code; negative for a signal.
        out, err: what it printed.
    """

    folder: Path
    code: int
    out: str
    err: str

    @property
    def seen(self) -> dict[str, Any]:
        return json.loads((self.folder / "probe/probe.json").read_text(encoding="utf-8"))

    @property
    def steps(self) -> list[tuple[int, str]]:
        return [(int(row["step"]), row["kind"]) for row in self.rows("steps.csv")]

    @property
    def phases(self) -> list[dict[str, Any]]:
        """Phases as a report has them, their parts decoded."""
        table = read([self.folder / "run.json"]).require("phases")
        columns = [table.values(name) for name in ("first_step", "last_step", "basis", "parts")]
        return [
            {"first_step": first, "last_step": last, "basis": basis, "parts": json.loads(str(parts))}
            for first, last, basis, parts in zip(*columns, strict=True)
        ]

    @property
    def profiles(self) -> list[Path]:
        return sorted((self.folder / "raw").rglob("*.xplane.pb"))

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.folder / "probe" / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def prepare(
    folder: Path, kind: str, target: str, argv: tuple[str, ...] = (), python: str = sys.executable, **settings: Any
) -> list[str]:
    """Make a run folder; return the command that runs it."""
    source = folder / "probe/src/tcprobe_probe"
    shutil.copytree(ROOT / "tcprobe/probe", source, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "tcprobe/op_types.json", source.parent)
    (folder / "raw").mkdir()
    config = {"schema": 1, "out": str(folder / "probe"), "raw": str(folder / "raw"), "target": [kind, target]}
    path = folder / "probe/config.json"
    path.write_text(json.dumps({**config, "argv": list(argv), **settings}), encoding="utf-8")
    return [python, str(source), str(path)]


def run(
    folder: Path,
    script: str,
    *argv: str,
    cwd: Path | None = None,
    stdin: str = "",
    environment: dict[str, str] | None = None,
    **settings: Any,
) -> Run:
    """Run the text of a script under the probe, in a fresh run folder below `folder`."""
    path = folder / "workload.py"
    path.write_text(script, encoding="utf-8")
    command = prepare(folder / "run", "script", str(path), argv, **settings)
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=cwd, env={**os.environ, **(environment or {})}
    )
    return Run(folder / "run", done.returncode, done.stdout, done.stderr)
