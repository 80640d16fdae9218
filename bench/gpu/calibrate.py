"""Measure a GPU through every installed framework, and store the measurements with where they come from.

Usage: python bench/gpu/calibrate.py OUT [--python PATH]... [--budget SECONDS] [--dry-run]

OUT is a folder, made if missing; README.md beside this file describes its content. Exits 0 if at least one framework
was measured, 2 if none was. The user's own calibrations are not touched.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tcprobe import __version__

FRAMEWORKS = ("tensorflow", "torch", "jax")
FIELDS = (
    "name,driver_version,vbios_version,pci.bus_id,power.limit,clocks.max.sm,clocks.max.memory,memory.total,"
    "ecc.mode.current"
)


def nvidia_smi() -> list[str] | str:
    """Return one line per GPU, or why there is none."""
    if shutil.which("nvidia-smi") is None:
        return "nvidia-smi is not installed"
    command = ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip().splitlines() if done.returncode == 0 else (done.stdout or done.stderr).strip()


def run(out: Path, python: str, framework: str, budget: float, dry: bool) -> dict[str, object]:
    """Measure through one framework; return the outcome."""
    with tempfile.TemporaryDirectory(prefix="tcprobe-bench-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "tcprobe", "calibrate", "--framework", framework, "--python", python]
        command += ["--budget", f"{budget:g}", "-o", str(folder / "raw.csv"), *(["--dry-run"] if dry else [])]
        environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
        started = datetime.now(UTC)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        print(done.stdout, done.stderr, sep="", flush=True)
        told: dict[str, object] = {
            "framework": framework,
            "python": python,
            "command": command[1:],
            "started": started.isoformat(timespec="seconds"),
            "seconds": round((datetime.now(UTC) - started).total_seconds(), 1),
            "exit_code": done.returncode,
            "stderr": done.stderr.splitlines(),
        }
        raws = [path for path in (folder / "raw.csv", folder / "raw.csv.part") if path.is_file()]
        if raws:
            told["files"] = store(out, framework, raws[0], folder / "config", done.stdout)
    return told


def store(out: Path, framework: str, raw: Path, config: Path, said: str) -> list[str]:
    """Copy measurements and constants to files named after GPU and framework; return their names."""
    gpu = raw.read_text(encoding="utf-8").splitlines()[1].partition(",")[0]
    stem = f"{gpu}-{framework}"
    shutil.copyfile(raw, out / f"{stem}.csv")
    (out / f"{stem}.txt").write_text(said, encoding="utf-8")
    names = [f"{stem}.csv", f"{stem}.txt"]
    for path in config.rglob("*.json"):
        shutil.copyfile(path, out / f"{stem}.json")
        names.append(f"{stem}.json")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure a GPU through every framework that is installed.")
    parser.add_argument("out", type=Path, help="folder for the results")
    parser.add_argument("--python", action="append", help="interpreter with frameworks; may be repeated")
    parser.add_argument("--budget", type=float, default=240.0, help="seconds for each framework")
    parser.add_argument("--dry-run", action="store_true", help="try it out on the CPU; fits nothing")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    provenance: dict[str, object] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "tcprobe": __version__,
        "nvidia_smi": nvidia_smi(),
    }
    runs = [
        run(asked.out, python, framework, asked.budget, asked.dry_run)
        for python in asked.python or [sys.executable]
        for framework in FRAMEWORKS
    ]
    provenance["runs"] = runs
    (asked.out / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n", encoding="utf-8")
    return 0 if any(told["exit_code"] == 0 for told in runs) else 2


if __name__ == "__main__":
    sys.exit(main())
