"""Count with Nsight Compute what a program runs in range `measure`: hardware counters launch by launch.

It records few counters, changes no clock, and works in a folder of its own that goes with it: its reports hold paths
and names of the machine, so only what `table.py` makes of them stays.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bench.gpu.counters import ranges
from bench.gpu.counters.metrics import CHIPS, choose, named
from bench.gpu.counters.refusals import Refusal, refusal
from bench.gpu.counters.table import counted_rows, save
from bench.gpu.day import LOG, Clock, Day, NotRecorded, OutOfTime, run

Filter = Literal["nvtx", "driver"]
FAKE: Final = Path(__file__).with_name("fake.py")
QUERY_S: Final = 30.0
END_S: Final = 6.0  # for Nsight Compute to write its report once the program has ended
READ_S: Final = 8.0  # to read it twice
MARGIN_S: Final = 4.0  # for ending what does not end when asked
DRY_S: Final = 0.5  # for either, on a dry run
MOST_LAUNCHES: Final = 2_000
RETRIES: Final = 4
OPTION: Final = re.compile(
    r"(?:unrecogni[sz]ed|unknown|invalid) (?:command line )?option\W+(?:--)?([\w-]+)", re.IGNORECASE
)
METRIC: Final = re.compile(r"(?:failed to find|unknown|invalid) metrics?:? '?([\w.]+)", re.IGNORECASE)
_chosen: dict[tuple[str, ...], tuple[str, ...]] = {}
_works: list[Filter] = ["nvtx", "driver"]
"""Ways to tell it what to count, the one that worked last first."""


class NotAllowed(NotRecorded):
    """Nothing can be counted on this machine, by no program."""


@dataclass(slots=True)
class _Count:
    """How one program is counted.

    Attributes:
        day: the day.
        tool: the command line of Nsight Compute.
        home: a folder for what it writes.
        clock: the time that is left.
        environment: the program's.
        left_out: options and metrics that this version does not have.
    """

    day: Day
    tool: tuple[str, ...]
    home: Path
    clock: Clock
    environment: Mapping[str, str]
    left_out: list[str]

    @property
    def report(self) -> Path:
        return self.home / "counts.ncu-rep"

    def spare(self, seconds: float) -> float:
        return DRY_S if self.day.dry else seconds


def count(
    day: Day, command: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str] | None = None
) -> int:
    """Run a program under Nsight Compute and write `kernels.csv.gz`, `ncu.csv.gz` and `count.json` (README.md).

    Args:
        day: its machine says which Nsight Compute; on a dry run a fake one counts.
        command: the program, which marks with `ranges.py` what to count, and ends when `ranges.UNTIL` says.
        folder: of the unit.
        seconds: the longest it may take.
        environment: variables for the program.

    Returns:
        The number of launches counted; some may be missing where the program failed or the time was up.

    Raises:
        NotAllowed: there is no Nsight Compute, or the counters cannot be read here.
        NotRecorded: nothing was counted.
        OutOfTime: nothing was counted before the time was up.
    """
    with tempfile.TemporaryDirectory(prefix="tcprobe-ncu-", ignore_cleanup_errors=True) as home:
        counting = _Count(day, _tool(day), Path(home), Clock(seconds - MARGIN_S), environment or {}, [])
        metrics = _metrics(counting, folder / LOG)
        why = Refusal("Nsight Compute counted nothing", None, False)
        for how in tuple(_works):
            status, printed = _record(counting, how, metrics, command, folder / LOG)
            found = _read(counting, folder / LOG) if counting.report.exists() else None
            if found is not None:
                _works.sort(key=lambda way: way != how)
                version = None if day.dry or day.machine.ncu is None else day.machine.ncu.version
                about = {"ncu": version, "fake": day.dry, "filter": how, "complete": status == 0}
                (folder / "count.json").write_text(
                    json.dumps({**about, "left_out": counting.left_out}, indent=1) + "\n", encoding="utf-8"
                )
                return save(folder, found, fake=day.dry)
            why = refusal(printed)
            if why.lasting:
                raise NotAllowed(why.reason, why.remedy)
            if counting.clock.left() < 2 * (counting.spare(END_S) + counting.spare(READ_S)):
                raise OutOfTime
        raise NotRecorded(why.reason, why.remedy)


def _tool(day: Day) -> tuple[str, ...]:
    if day.dry:
        return (sys.executable, str(FAKE))
    if day.machine.ncu is None:
        remedy = "it comes with CUDA's toolkit, and as package nsight-compute; put ncu on the PATH"
        raise NotAllowed("there is no Nsight Compute (ncu) on the PATH or in CUDA's folders", remedy)
    return (day.machine.ncu.path,)


def _metrics(counting: _Count, log: Path) -> tuple[str, ...]:
    """Return the metrics to ask for: of what this GPU has, else a GPU of its kind, else every one."""
    if counting.tool not in _chosen:
        chip = CHIPS.get(counting.day.machine.capability or (0, 0))
        names: list[str] = []
        for asked in ([], *([["--chips", chip]] if chip else [])):
            told = counting.home / "metrics.txt"
            command = [*counting.tool, "--query-metrics", *asked]
            with suppress(OutOfTime):  # a first start from a slow disk: the few of every GPU do
                run(command, min(QUERY_S, counting.clock.left()), log=log, out=told, environment=_home(counting))
            names = named(told.read_text(encoding="utf-8", errors="replace"))
            if any("tensor" in name for name in names):
                break
        _chosen[counting.tool] = choose(names)
    return _chosen[counting.tool]


def _record(
    counting: _Count, how: Filter, metrics: Sequence[str], command: Sequence[str], log: Path
) -> tuple[int | None, str]:
    """Run the program under Nsight Compute; return its exit status, None if the time was up, and what was printed."""
    options = [option for option in _options(how) if option[0] not in counting.left_out]
    wanted = list(metrics)
    for _ in range(RETRIES):
        before = log.stat().st_size if log.exists() else 0
        given = [word for name, *value in options for word in (f"--{name}", *value)]
        line = [*counting.tool, *given, "--metrics", ",".join(wanted), "--export", str(counting.report)]
        most = counting.clock.left() - counting.spare(READ_S)
        until = {ranges.UNTIL: f"{time.time() + most - counting.spare(END_S):.3f}"}
        told = ranges.SWITCH if how == "driver" else ranges.NEEDED
        asked = {} if counting.day.dry else {told: "1"}
        environment = {**_home(counting), **counting.environment, **until, **asked}
        status: int | None = None
        with suppress(OutOfTime):
            status = run([*line, *command], most, log=log, environment=environment)
        printed = log.read_bytes()[before:].decode("utf-8", "replace")
        lacking = _lacking(printed) if status and not counting.report.exists() else None
        if lacking is None:
            return status, printed
        counting.left_out.append(lacking)
        options = [option for option in options if option[0] != lacking]
        wanted = [metric for metric in wanted if metric.split(".")[0] != lacking.split(".")[0]]
    return status, printed


def _options(how: Filter) -> list[tuple[str, ...]]:
    only: list[tuple[str, ...]] = [("profile-from-start", "off"), ("launch-count", str(MOST_LAUNCHES))]
    if how == "nvtx":
        place = f"{ranges.DOMAIN}@{ranges.MEASURE}"
        only = [("nvtx-include", f"{place}/"), ("nvtx-include", place)]  # of the thread, and of all threads
    return [
        ("nvtx",),
        *only,
        ("target-processes", "all"),
        ("clock-control", "none"),
        ("cache-control", "none"),
        ("force-overwrite",),
    ]


def _lacking(printed: str) -> str | None:
    """Return the option or metric that this version of Nsight Compute does not have."""
    found = OPTION.search(printed) or METRIC.search(printed)
    return found[1] if found else None


def _read(counting: _Count, log: Path) -> list[Path] | None:
    """Return its report as CSV, with kernel names demangled and, where that works, mangled; None if it holds none."""
    found = []
    for base in ("demangled", "mangled"):
        out = counting.home / f"{base}.csv"
        command = [*counting.tool, "--import", str(counting.report), "--csv", "--page", "raw", "--print-units", "base"]
        status: int | None = None
        with suppress(OutOfTime):
            command += ["--print-kernel-base", base]
            status = run(command, counting.clock.left(), log=log, out=out, environment=_home(counting))
        if status != 0 or not counted_rows(out):
            break
        found.append(out)
    return found or None


def _home(counting: _Count) -> dict[str, str]:
    """Return where Nsight Compute writes; Python packages of the user are found as before."""
    base = os.environ.get("PYTHONUSERBASE") or str(Path.home() / ".local")
    marks = {ranges.MARKS: str(counting.home / "marks")} if counting.day.dry else {}
    return {"HOME": str(counting.home), "TMPDIR": str(counting.home), "PYTHONUSERBASE": base, **marks}
