"""Record `tcprobe calibrate` through one framework: its raw CSV, the constants fitted to it, and their errors."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.gpu.costs.clocks import sampled
from bench.gpu.costs.said import hide, problem
from bench.gpu.day import LOG, Clock, Day, NotRecorded, OutOfTime, run
from bench.gpu.machine import Framework
from bench.gpu.tables import SCORES, write_table
from tcprobe.calibration.check import scores, split_rows
from tcprobe.calibration.raw import read_raw
from tcprobe.cost.constants import Constants
from tcprobe.hardware import find_gpu

END_S: Final = 25.0
"""From the end of measuring to that of the unit: the fit of 1,500 products takes 6 s on a slow core."""
AGAIN_S: Final = 10.0  # of that, for a fit of what was kept if the first run did not come to its end
DRY_END_S: Final = 3.0
RAW: Final = "raw.csv.gz"
CONSTANTS: Final = "constants.json"
SCORED: Final = "scores.csv.gz"


def record(day: Day, framework: Framework, folder: Path, seconds: float) -> None:
    """Measure and fit within so many seconds; the user's own constants are neither read nor written."""
    clock = Clock(seconds)
    if day.machine.gpu is None and not day.dry:
        name = day.machine.smi.get("name", "this GPU")
        raise NotRecorded(f"gpus.csv does not have {name}", "add a row to tcprobe/gpus.csv, then call again")
    with tempfile.TemporaryDirectory(prefix="tcprobe-bench-", ignore_cleanup_errors=True) as name:
        config, raw = Path(name), folder / "raw.csv"
        with sampled(day, folder):
            cut = _measure(day, framework, raw, config, clock)
        kept = raw if raw.exists() else raw.with_name("raw.csv.part")
        if not kept.exists():
            if cut:
                raise OutOfTime
            raise NotRecorded(*problem(folder / LOG))
        if not day.dry and not list(config.rglob("*.json")):
            _fit(kept, config, clock, folder / LOG)
        _store(folder, kept, config)
        (folder / "said.txt").write_text(hide(folder / LOG), encoding="utf-8")
        if not day.dry and not (folder / CONSTANTS).exists():
            raise NotRecorded(problem(folder / LOG)[0], "give more --minutes, and --only costs")


def _measure(day: Day, framework: Framework, raw: Path, config: Path, clock: Clock) -> bool:
    """Run `tcprobe calibrate` and return whether it had to be ended; whole rows stay then, in ``raw.csv.part``."""
    budget = clock.left() - (DRY_END_S if day.dry else END_S)
    command = ["--framework", framework.name, "--python", framework.python, "--budget", f"{max(1.0, budget):.1f}"]
    try:
        seconds = clock.left() - (1.0 if day.dry else AGAIN_S)
        _calibrate([*command, "-o", str(raw), *["--dry-run"][: int(day.dry)]], seconds, config, raw.with_name(LOG))
    except OutOfTime:
        with raw.with_name(LOG).open("a", encoding="utf-8") as log:
            log.write("ended by the clock: what was measured until then was kept\n")
        return True
    return False


def _fit(raw: Path, config: Path, clock: Clock, log: Path) -> None:
    """Fit what was measured, whatever the fit says of it: what a user is refused, results show with its errors."""
    with suppress(OutOfTime):
        _calibrate(["--from", str(raw), "--force"], clock.left() - 1.0, config, log)


def _calibrate(arguments: list[str], seconds: float, config: Path, log: Path) -> None:
    command = [sys.executable, "-m", "tcprobe", "calibrate", *arguments]
    run(command, seconds, log=log, environment={"XDG_CONFIG_HOME": str(config)})


def _store(folder: Path, raw: Path, config: Path) -> None:
    """Put what was recorded where the results have it."""
    for path in config.rglob("*.json"):
        shutil.copyfile(path, folder / CONSTANTS)
        constants = Constants.from_json(path.read_text(encoding="utf-8"), path)
        held = split_rows(row for row in read_raw(raw) if row.gpu == constants.gpu)[1]
        found = scores(held, find_gpu(constants.gpu), constants)
        rows = [
            {
                "kind": score.kind,
                "products": score.rows,
                "error_pct": f"{score.error_pct:.2f}",
                "shipped_pct": f"{score.shipped_pct:.2f}",
            }
            for score in found
        ]
        write_table(folder / SCORED, SCORES, rows)
    (folder / RAW).write_bytes(gzip.compress(raw.read_bytes(), mtime=0))
    raw.unlink()
