"""Truth for classification: hardware counters of single products and other ops, in batches of cases."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from pathlib import Path
from typing import Final

from bench.gpu.classification.cases import Case, distinct, plan
from bench.gpu.counters.ncu import END_S, READ_S, NotAllowed, count
from bench.gpu.day import LOG, Clock, Day, NotRecorded, OutOfTime, Unit, one_device, status_of
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
"""With less time left, a program that ended early is not started again for its other cases."""
CRASHED: Final = "the program crashed in it"
LATE: Final = "out of time"
TRIES: Final = 2


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
        # what did not begin is in no table, so another batch takes it
        rows = [{**case.row(), "status": statuses[case.name]} for case in self.cases if case.name in statuses]
        write_table(folder / "cases.csv.gz", CASES, rows)

    def _attempt(self, attempts: list[Path], folder: Path, clock: Clock) -> dict[str, str]:
        """Count in one process after the other, each what the one before left; return what became of the cases."""
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
            if not told:
                break
        return statuses

    def _count(self, folder: Path, cases: Sequence[Case], clock: Clock, log: Path) -> dict[str, str]:
        """Count cases in one process; return what became of each that began."""
        orders, results = folder / "orders.json", folder / "results.jsonl"
        device = "cpu" if self.day.dry else "cuda"
        told = {"results": str(results), "counters": str(COUNTERS), "device": device}
        orders.write_text(json.dumps({"cases": [case.order() for case in cases], **told}), encoding="utf-8")
        command = [self.framework.python, str(PROGRAMS / f"{self.framework.name}_ops.py"), str(orders)]
        reason: NotRecorded | OutOfTime | None = None
        try:
            count(self.day, command, folder, clock.left(), one_device(self.day.dry))
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
        # where nothing was counted, what ran before the crash is run again without the case that crashed
        return {case: status for case, status in statuses.items() if reason is None or status != "ran"}

    def _spare(self, seconds: float) -> float:
        return DRY_S / 4 if self.day.dry else seconds


def units(day: Day) -> Iterator[Unit]:
    """Yield batches, the first of each framework, then the second, until it shows that nothing can be counted here.

    A batch takes what none before it has counted, so what the clock cut off comes next, in this call or a later one.
    """
    refused: list[bool] = []
    frameworks = [found for name in CASE_S if (found := day.machine.framework(name)) is not None]
    tried = {framework.name: Counter[str]() for framework in frameworks}
    for number in count_from(1):
        more = False
        for framework in frameworks:
            if refused:
                return  # every other program would be run for nothing
            place = day.folder / NAME / f"ncu-{framework.name}-{number}"
            there = status_of(place) == "done"
            left = [case for case in uncounted(day, framework.name) if tried[framework.name][case.name] < TRIES]
            cases = [] if there else left[: BATCHES[min(number, len(BATCHES)) - 1]]
            if there or cases:
                more = True
                yield _unit(day, framework, place.name, cases, refused)
                tried[framework.name].update(_in_vain(place, cases))
        if not more:
            break
    for framework in frameworks:
        _tidy(day, framework.name)


def _unit(day: Day, framework: Framework, name: str, cases: Sequence[Case], refused: list[bool]) -> Unit:
    most = DRY_S if day.dry else START_S + CASE_S[framework.name] * len(cases)
    return Unit(
        name,
        _Batch(day, framework, cases, refused).record,
        most_s=3 * most if day.dry else most,
        least_s=3.0 if day.dry else LEAST_S,
        about={"framework": framework.name, "version": framework.version, "cases": len(cases)},
    )


def uncounted(day: Day, framework: str) -> list[Case]:
    """Return the cases of which no batch says what became of them; those that outlasted one come last."""
    places = sorted((day.folder / NAME).glob(f"ncu-{framework}-*"))
    rows = [row for place in places if status_of(place) == "done" for row in read_table(place / "cases.csv.gz")]
    settled = {row["case"] for row in rows if row["status"] != LATE}
    late = {row["case"] for row in rows} - settled
    return sorted((c for c in planned(day.dry) if c.name not in settled), key=lambda case: case.name in late)


def _tidy(day: Day, framework: str) -> None:
    """Remove batches that were not recorded, once others have counted all cases."""
    if not uncounted(day, framework):
        for place in (day.folder / NAME).glob(f"ncu-{framework}-*"):
            if status_of(place) != "done":
                shutil.rmtree(place)


def _in_vain(place: Path, cases: Sequence[Case]) -> dict[str, int]:
    """Return how much each case of a batch nears the end of its tries in this call.

    A batch of which nothing was whole in time is tried once more: a framework's first start may have taken all of it.
    """
    status = status_of(place)
    rows = read_table(place / "cases.csv.gz") if status == "done" else []
    late = {row["case"] for row in rows if row["status"] == LATE}
    return {c.name: 1 if status == "out of time" else TRIES for c in cases if not rows or c.name in late}


def planned(dry: bool) -> list[Case]:
    """Return all cases; a rehearsal has fewer, of small sizes."""
    return distinct(case.small() for case in plan()[:DRY_CASES]) if dry else plan()


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
