"""Record one run of the workload: under `tcprobe profile`, without tcprobe, or under Nsight Systems."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.gpu.day import LOG, ROOT, Clock, Day, NotRecorded, one_device
from bench.gpu.day import run as start
from bench.gpu.machine import Framework
from bench.gpu.runs.cases import TRACED, WORKLOAD, Case, Kind
from bench.gpu.runs.keep import complaints, keep_run, why
from bench.gpu.runs.logged import keep_logged
from bench.gpu.runs.ranges import keep_ranges

SCRIPT: Final = ROOT / "workloads" / f"{WORKLOAD}.py"
PLAIN: Final = Path(__file__).with_name("plain.py")
FAKE_NSYS: Final = Path(__file__).with_name("fake_nsys.py")
LISTEN: Final = ("-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "-f", "true")
KEEP_S: Final = 3.0
"""Left of a unit's seconds to keep what was recorded."""
NO_GPU: Final = "a build for CUDA (pip install 'tensorflow[and-cuda]'), or another --python"


@dataclass(frozen=True, slots=True)
class Run:
    """What to run, and in what.

    Attributes:
        day: the day.
        framework: TensorFlow, in its interpreter.
        kind: how it is run.
        case: what is run.
        blind: interpreters whose TensorFlow saw no GPU; one that sees none is added.
    """

    day: Day
    framework: Framework
    kind: Kind
    case: Case
    blind: set[str]

    def record(self, place: Path, seconds: float) -> None:
        """Record into `place`; what the run itself leaves lies beside it and goes when it was read."""
        scratch = place / "scratch"
        scratch.mkdir()
        how: dict[Kind, Callable[[Path, Path, Clock], dict[str, Any]]] = {
            "profile": self._profiled,
            "plain": self._plain,
            "nvtx": self._heard,
        }
        try:
            started = time.monotonic()
            told = how[self.kind](place, scratch, Clock(seconds - KEEP_S))
            wall = round(time.monotonic() - started, 1)
            (place / "ran.json").write_text(json.dumps({**self._asked(), **told, "wall_s": wall}, indent=1) + "\n")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _asked(self) -> dict[str, Any]:
        case = self.case
        asked = {name: getattr(case, name) for name in ("precision", "sizes", "loss_scale", "xla")}
        own = case.words(self.day.dry)
        words = [WORKLOAD, *case.options(), *own] if self.kind == "plain" else [*case.asked(), WORKLOAD, *own]
        return {"kind": self.kind, "workload": WORKLOAD, **asked, "batch": case.batch(self.day.dry), "words": words}

    def _command(self, scratch: Path) -> list[str]:
        own = [sys.executable, "-m", "tcprobe", "profile", "--python", self.framework.python, *self.case.asked()]
        to = ["--output", str(scratch / "run"), "-o", str(scratch / "report.json")]
        return [*own, *to, WORKLOAD, *self.case.words(self.day.dry)]

    def _profiled(self, place: Path, scratch: Path, clock: Clock) -> dict[str, Any]:
        status = self._started(self._command(scratch), place, scratch, clock)
        record = keep_run(scratch, place, self._prefix(), raw=self.case == TRACED)
        self._check(place, record["gpu_used"], record["exit_code"])
        return {"exit_code": status, "said": complaints(place / LOG)}

    def _plain(self, place: Path, scratch: Path, clock: Clock) -> dict[str, Any]:
        orders, out = scratch / "orders.json", scratch / "found.json"
        words = [*self.case.options(), *self.case.words(self.day.dry)]
        orders.write_text(json.dumps({"script": str(SCRIPT), "words": words, "out": str(out)}), encoding="utf-8")
        command = [self.framework.python, str(PLAIN), str(orders)]
        status = self._started(command, place, scratch, clock, one_device(self.day.dry))
        found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        self._check(place, found.get("gpu_used"), status)
        return {"exit_code": status, **found}

    def _heard(self, place: Path, scratch: Path, clock: Clock) -> dict[str, Any]:
        nsys = self._nsys()
        trace = scratch / "trace"
        command = [*nsys, "profile", *LISTEN, "-o", str(trace), *self._command(scratch)]
        status = self._started(command, place, scratch, clock)
        record = keep_run(scratch, place, self._prefix())
        self._check(place, record["gpu_used"], record["exit_code"])
        made = next((path for path in scratch.glob("trace.*rep")), None)  # .nsys-rep, .qdrep before 2021.4
        if made is None:  # its exit status says nothing about that
            raise NotRecorded(f"nsys left no report: {why(place / LOG)}")
        out = scratch / "trace.sqlite"
        start([*nsys, "export", "--type", "sqlite", "-o", str(out), str(made)], clock.left(), log=place / LOG)
        keep_ranges(out, place)
        return {"exit_code": status, "nsys": self.day.machine.nsys.version if self.day.machine.nsys else None}

    def _prefix(self) -> Path:
        """Return where the interpreter is installed."""
        return Path(shutil.which(self.framework.python) or self.framework.python).absolute().parent.parent

    def _nsys(self) -> list[str]:
        if self.day.machine.nsys is not None:
            return [self.day.machine.nsys.path]
        if not self.day.dry:
            raise NotRecorded("Nsight Systems (nsys) is not here", "it comes with the CUDA Toolkit")
        return [sys.executable, str(FAKE_NSYS)]

    def _started(
        self,
        command: Sequence[str],
        place: Path,
        scratch: Path,
        clock: Clock,
        environment: dict[str, str] | None = None,
    ) -> int:
        """Run a command, and keep what the workload logs."""
        printed = scratch / "printed.txt"
        status = start(command, clock.left(), log=place / LOG, out=printed, environment=environment)
        keep_logged(place, printed, self.case.batch(self.day.dry))
        return status

    def _check(self, place: Path, gpu_used: bool | None, status: int) -> None:
        """Refuse a run that failed, or in which TensorFlow saw no GPU."""
        if status:
            raise NotRecorded(f"{WORKLOAD} ended with status {status}: {why(place / LOG)}")
        if gpu_used is False and not self.day.dry:
            self.blind.add(self.framework.python)
            raise NotRecorded(f"TensorFlow {self.framework.version} sees no GPU", NO_GPU)
