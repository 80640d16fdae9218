"""Truth for classification: hardware counters of single products and other ops, in batches of cases."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.gpu.classification.cases import Case, distinct, plan
from bench.gpu.counters.ncu import END_S, READ_S, NotAllowed, count
from bench.gpu.day import LOG, Clock, Day, NotRecorded, OutOfTime, Unit
from bench.gpu.machine import Framework
from bench.gpu.private import without_paths
from bench.gpu.tables import CASES, read_table, write_table

NAME = "classification"
WHAT = "hardware counters of single ops"
SHARE = 6.0
PROGRAMS: Final = Path(__file__).with_name("programs")
COUNTERS: Final = Path(__file__).parents[1] / "counters"
BATCHES: Final = (30, 30, 60, 60, 90)
"""Cases by batch, the last again and again: little is lost where the first is cut off; later ones start less often."""
START_S: Final = 90.0  # Nsight Compute, a framework's import, its first kernel, and the report, twice, at most
CASE_S: Final = {"torch": 1.0, "jax": 3.0, "tensorflow": 1.0}  # with compilation and autotuning, at most
LEAST_S: Final = 30.0
DRY_S: Final = 10.0
DRY_CASES: Final = 40
AGAIN_S: Final = 25.0
"""With less time left, a program that crashed is not started again for its other cases."""
CRASHED: Final = "the program crashed in it"
LATE: Final = "out of time"


@dataclass(frozen=True, slots=True)
class _Batch:
    """Cases that one unit counts in one framework.

    Attributes:
        refused: of all batches; one that finds that nothing can be counted here adds to it.
    """

    day: Day
    framework: Framework
    cases: Sequence[Case]
    refused: list[bool]

    def record(self, folder: Path, seconds: float) -> None:
        """Count the cases; where the program crashes, count the others in another process.

        Raises:
            NotRecorded: nothing was counted.
            OutOfTime: nothing was counted before the time was up.
        """
        attempts: list[Path] = []
        try:
            statuses = self._attempt(attempts, folder, Clock(seconds))
            launches = _join(attempts, folder)
        finally:
            for attempt in attempts:
                shutil.rmtree(attempt)  # its orders hold paths of the machine
        if not launches:
            raise NotRecorded(f"the program crashed in every case that it began: {_last(folder / LOG)}")
        rows = [{**case.row(), "status": statuses.get(case.name, LATE)} for case in self.cases]
        write_table(folder / "cases.csv.gz", CASES, rows)

    def _attempt(self, attempts: list[Path], folder: Path, clock: Clock) -> dict[str, str]:
        """Count in one process after the other, until one does not crash; return what became of the cases."""
        statuses: dict[str, str] = {}
        while left := [case for case in self.cases if case.name not in statuses]:
            if attempts and clock.left() < self._spare(AGAIN_S):
                break
            attempts.append(folder / f"attempt-{len(attempts) + 1}")
            attempts[-1].mkdir()
            try:
                told = self._count(attempts[-1], left, clock, folder / LOG)
            except (NotRecorded, OutOfTime):
                if len(attempts) == 1:
                    raise
                break  # what was counted before stays
            statuses |= told
            if CRASHED not in told.values():
                break
        return statuses

    def _count(self, folder: Path, cases: Sequence[Case], clock: Clock, log: Path) -> dict[str, str]:
        """Count cases in one process; return what became of each that began."""
        orders, results = folder / "orders.json", folder / "results.jsonl"
        device = "cpu" if self.day.dry else "cuda"
        told = {"results": str(results), "counters": str(COUNTERS), "device": device}
        orders.write_text(json.dumps({"cases": [case.order() for case in cases], **told}), encoding="utf-8")
        command = [self.framework.python, str(PROGRAMS / f"{self.framework.name}_ops.py"), str(orders)]
        environment = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"} if self.day.dry else {}
        reason: NotRecorded | OutOfTime | None = None
        try:
            count(self.day, command, folder, clock.left(), environment)
        except NotAllowed:
            self.refused.append(True)
            raise
        except (NotRecorded, OutOfTime) as error:
            reason = error
        finally:
            with log.open("ab") as file:
                file.write((folder / LOG).read_bytes() if (folder / LOG).exists() else b"")
        statuses = _statuses(results, LATE if clock.left() < self._spare(END_S + READ_S) else CRASHED)
        if reason is not None and CRASHED not in statuses.values():
            if "ran" in statuses.values() or isinstance(reason, OutOfTime):
                raise reason
            why = next(iter(statuses.values()), f"it did not start: {_last(log)}")
            raise NotRecorded(f"{self.framework.name} ran no case: {why}")
        return statuses

    def _spare(self, seconds: float) -> float:
        return DRY_S / 4 if self.day.dry else seconds


def units(day: Day) -> Iterator[Unit]:
    """Yield batches, the first of each framework, then the second, until it shows that nothing can be counted here."""
    refused: list[bool] = []
    frameworks = [day.machine.framework(name) for name in CASE_S]
    for number, cases in enumerate(batches(day.dry), 1):
        for framework in frameworks:
            if refused:
                return  # every other program would be run for nothing
            if framework is not None:
                most = DRY_S if day.dry else START_S + CASE_S[framework.name] * len(cases)
                yield Unit(
                    f"ncu-{framework.name}-{number}",
                    _Batch(day, framework, cases, refused).record,
                    most_s=3 * most if day.dry else most,
                    least_s=3.0 if day.dry else LEAST_S,
                    about={"framework": framework.name, "version": framework.version, "cases": len(cases)},
                )


def batches(dry: bool) -> list[list[Case]]:
    """Return the plan cut into batches; a rehearsal's has small sizes, and fewer cases."""
    cases = plan()
    if dry:
        cases = distinct(case.small() for case in cases[:DRY_CASES])
    cut: list[list[Case]] = []
    while cases:
        size = BATCHES[min(len(cut), len(BATCHES) - 1)]
        cut.append(cases[:size])
        cases = cases[size:]
    return cut


def _statuses(results: Path, unfinished: str) -> dict[str, str]:
    """Return what became of each case that began; one that did not end is `unfinished`."""
    try:
        lines = results.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    told = [json.loads(line) for line in lines if line.endswith("}")]
    return {line["case"]: unfinished if line["status"] == "began" else line["status"] for line in told}


def _join(attempts: Sequence[Path], folder: Path) -> int:
    """Put the tables of several processes together, and return the number of launches."""
    rows: list[dict[str, str]] = []
    raw = b""
    for attempt in attempts:
        if (attempt / "kernels.csv.gz").exists():
            rows += read_table(attempt / "kernels.csv.gz")
            raw += (attempt / "ncu.csv.gz").read_bytes()
            (attempt / "count.json").replace(folder / "count.json")
    if rows:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        numbered = [{**row, "launch": number} for number, row in enumerate(rows)]
        write_table(folder / "kernels.csv.gz", columns, numbered)
        (folder / "ncu.csv.gz").write_bytes(raw)
    return len(rows)


def _last(log: Path) -> str:
    """Return the last line that is the program's own."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    own = [line for line in lines if line.strip() and not line.startswith("==")]
    return without_paths(own[-1].strip())[:200] if own else "it printed nothing"
