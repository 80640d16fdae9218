"""CPU time of `tcprobe audit-shapes --mode source` beside flake8's, over whole packages as they are published.

Usage: python bench/trees.py [--cache FOLDER] [--runs 2] [PACKAGE ...]

Fetches the packages by pip, which must be there, and unpacks them. Whole processes and their children are timed, user
and system, with start-up; both run in turn over the same folder, and the least of each counts: CPU time does not wait
for others, but shares caches with them. Exits 1 if all trees together take more than `MOST` times flake8's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "autokeras==2.0.0", "deepctr==0.9.3", "efficientnet==1.1.1", "image-classifiers==1.0.0", "kapre==0.3.7",
    "keras==3.10.0", "keras-bert==0.89.0", "keras-cv==0.9.0", "keras-hub==0.21.1", "keras-resnet==0.2.0",
    "keras-rs==0.2.1", "keras-unet-collection==0.1.13", "segmentation-models==1.0.1", "spektral==1.3.1",
    "tensorflow-addons==0.23.0", "tensorflow-gan==2.1.0", "tensorflow-ranking==0.5.5",
    "tensorflow-recommenders==0.7.3", "tensorlayer==2.2.5", "tf-agents==0.19.0", "tf-models-official==2.19.1",
    "tf-slim==1.1.0", "transformers==4.40.2", "trax==1.4.1",
)  # fmt: skip
MOST: Final = 1.2
COMMANDS: Final = {
    "flake8": [sys.executable, "-m", "flake8", "."],
    "tcprobe": [sys.executable, "-m", "tcprobe", "audit-shapes", "--mode", "source", "."],
}


def fetched(package: str, cache: Path) -> Path:
    """Return the folder that a package is unpacked in; SystemExit if pip does not get it."""
    folder = cache / package
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=cache) as download:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", download, package]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(f"pip does not get {package}")
        whole = Path(download) / "unpacked"
        for archive in Path(download).iterdir():
            if archive.suffix == ".whl":
                with zipfile.ZipFile(archive) as wheel:
                    wheel.extractall(whole)
            else:
                with tarfile.open(archive) as source:
                    source.extractall(whole, filter="data")
        whole.rename(folder)
    return folder


def cpu_seconds(command: list[str], cwd: Path) -> float:
    """Return the CPU time of a process and its children; SystemExit if it failed."""
    quiet = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen(command, cwd=cwd, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 2):  # 2: a file that is no Python
        raise SystemExit(f"{' '.join(command[1:4])} failed in {cwd}: {process.returncode}")
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES, metavar="PACKAGE", help="by name and version, as pip")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "tcprobe-trees", help="keeps them")
    parser.add_argument("--runs", type=int, default=2, help="runs of each command; the least counts")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    sums = dict.fromkeys(COMMANDS, 0.0)
    print(f"{'':30} {'files':>6} {'lines':>9} {'flake8':>8} {'tcprobe':>8} {'ratio':>6}")
    for package in options.packages:
        tree = fetched(package, options.cache)
        files = [*tree.rglob("*.py")]
        lines = sum(file.read_bytes().count(b"\n") for file in files)
        runs = [{name: cpu_seconds(c, tree) for name, c in COMMANDS.items()} for _ in range(options.runs)]
        least = {name: min(run[name] for run in runs) for name in COMMANDS}
        sums = {name: sums[name] + least[name] for name in COMMANDS}
        _show(package, f"{len(files):6,} {lines:9,}", least)
    _show("all", " " * 16, sums)
    return int(sums["tcprobe"] > MOST * sums["flake8"])


def _show(name: str, size: str, times: dict[str, float]) -> None:
    ours, theirs = times["tcprobe"], times["flake8"]
    print(f"{name:30} {size} {theirs:6.2f} s {ours:6.2f} s {ours / theirs:6.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
