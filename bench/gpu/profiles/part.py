"""Truth for profiles: the same training step by each profiler."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from bench.gpu.counters.ncu import NotAllowed, count
from bench.gpu.day import LOG, ROOT, Clock, Day, NotRecorded, OutOfTime, Unit, one_device, run, said
from bench.gpu.machine import Framework, Tool
from bench.gpu.profiles import kernels, raw
from tcprobe.errors import TcprobeError

NAME = "profiles"
WHAT = "one training step by each profiler"
SHARE = 4.0

Recorder = Literal["plain", "xspace", "kineto", "nsys", "ncu"]
OWN: Final[Mapping[str, Recorder]] = {"torch": "kineto", "jax": "xspace", "tensorflow": "xspace"}
"""In this order: PyTorch compiles nothing, so what it records is surest to be whole in little time."""
MODELS: Final = ("transformer", "gan")
PROGRAM: Final = Path(__file__).with_name("steps")
RANGES: Final = Path(__file__).parents[1] / "counters" / "ranges.py"
STEPS: Final = {False: 30, True: 4}
SHORT: Final = {False: (3, 1), True: (2, 1)}
"""Lengths of further traces, of which one is small enough to keep; both by whether it is a rehearsal."""
FEW: Final = 2
WARM_UP: Final = {False: 5, True: FEW}
MOST_S: Final = {"ncu": 240.0, "nsys": 180.0}
OTHERWISE_S: Final = 150.0
LEAST_S: Final = {False: 25.0, True: 8.0}
TO_END_S: Final = {False: 8.0, True: 3.0}  # to read the trace and compress it
FILES: Final = {"xspace": "*.xplane.pb", "kineto": "*.json", "nsys": "*.sqlite"}
TRACE: Final = (
    "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node", "--force-overwrite=true",
    "--capture-range=cudaProfilerApi", "--capture-range-end=stop",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """One unit: a model through a framework, in a precision, by a recorder."""

    model: str
    framework: Framework
    recorder: Recorder
    precision: Literal["bfloat16", "tf32"] = "bfloat16"

    @property
    def name(self) -> str:
        """Return the unit's name; the second precision is named after the framework's."""
        other = "" if self.precision == "bfloat16" else f".{self.precision}"
        return f"{self.model}-{self.framework.name}{other}-{self.recorder}"


@dataclass(slots=True)
class _Shared:
    """What units have in common.

    Attributes:
        cache: folder in which XLA keeps what it compiled: all recorders see the same kernels, and wait for them once.
        refused: what refused hardware counters for good, once something did.
    """

    cache: str
    refused: NotAllowed | None = None


def units(day: Day) -> Iterator[Unit]:
    """Yield what to record on this machine: profiles, the counters of their kernels, then steps without a profiler."""
    with tempfile.TemporaryDirectory(prefix="tcprobe-gpu-") as cache:
        shared = _Shared(cache)
        for plan in plans(day):
            about = {"framework": plan.framework.name, "version": plan.framework.version, "model": plan.model}
            most = MOST_S.get(plan.recorder, OTHERWISE_S)
            yield Unit(plan.name, partial(_record, day, plan, shared), most, LEAST_S[day.dry], about)


def plans(day: Day) -> Iterator[Plan]:
    """Yield the units, most valuable first."""
    frameworks = [framework for name in OWN if (framework := day.machine.framework(name)) is not None]
    recorders: list[Recorder | None] = [None, "ncu", "plain"]
    if day.machine.nsys:
        recorders.append("nsys")
    for recorder in recorders:
        for model in MODELS:
            for framework in frameworks:
                yield Plan(model, framework, recorder or OWN[framework.name])
    for framework in frameworks:
        if framework.name == "torch":
            for chosen in (OWN["torch"], "ncu"):
                yield from (Plan(model, framework, chosen, "tf32") for model in MODELS)


def _record(day: Day, plan: Plan, shared: _Shared, folder: Path, seconds: float) -> None:
    """Record a unit; the traces that are not kept are removed, whatever came of it."""
    if plan.recorder == "ncu" and shared.refused is not None:
        raise shared.refused
    work = folder / "work"
    work.mkdir()
    try:
        RECORDERS[plan.recorder](_Recording(day, plan, shared.cache, folder, work, Clock(seconds)))
    except NotAllowed as error:
        shared.refused = error
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Launches in the table of kernels, and whole steps that they are of; None where nobody counted."""

    launches: int | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class _Recording:
    """A unit on its way.

    Attributes:
        day, plan: what is recorded where.
        cache: for XLA.
        folder: of the unit.
        work: folder in it for what is not kept.
        clock: of the unit.
    """

    day: Day
    plan: Plan
    cache: str
    folder: Path
    work: Path
    clock: Clock

    @property
    def steps(self) -> int:
        """Return how many steps are counted."""
        return 1 if self.plan.recorder == "ncu" else STEPS[self.day.dry]

    def command(self, steps: int) -> list[str]:
        """Write the orders, and return the command line of the program."""
        dry, plan = self.day.dry, self.plan
        warm_up = FEW if plan.recorder == "ncu" else WARM_UP[dry]
        orders = {
            "framework": plan.framework.name, "model": plan.model, "precision": plan.precision, "dry": dry,
            "recorder": plan.recorder, "warm_up": warm_up, "steps": steps, "short": SHORT[dry],
            "folder": str(self.work), "root": str(ROOT), "ranges": str(RANGES),
        }  # fmt: skip
        path = self.work / "orders.json"
        path.write_text(json.dumps(orders), encoding="utf-8")
        return [plan.framework.python, str(PROGRAM), str(path)]

    def environment(self) -> dict[str, str]:
        """Return what is set for the program: one GPU, of whose memory it takes what it needs, or none."""
        return {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "JAX_COMPILATION_CACHE_DIR": self.cache,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            **one_device(self.day.dry),
        }

    def run(self, command: list[str], **more: str) -> int:
        """Run a command within the time that is left, but for what comes after it, and return its status."""
        left = self.clock.left() - TO_END_S[self.day.dry]
        return run(command, left, log=self.folder / LOG, environment={**self.environment(), **more})

    def answer(self, ended: int) -> dict[str, Any]:
        """Return what the program answered.

        Raises:
            NotRecorded: it could not do it, or did not come to its end.
        """
        try:
            answer: dict[str, Any] = json.loads((self.work / "answer.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise NotRecorded(f"the program ended with status {ended}: {said(self.folder / LOG)}") from None
        if "unusable" in answer:
            raise NotRecorded(answer["unusable"])
        return answer

    def trace(self, steps: int) -> Path | None:
        """Return the trace of so many steps; None where the recorder left none."""
        found = sorted((self.work / f"trace-{steps}").rglob(FILES[self.plan.recorder]))
        return found[0] if found else None

    def keep(self, traces: list[tuple[int, Path]]) -> tuple[str, int] | None:
        """Keep the first of the traces, given as steps and file, that is small enough; return its name and steps."""
        return raw.keep(traces, self.folder, (self.day.folder, ROOT, Path.home()))

    def finish(self, answer: Mapping[str, Any], counted: _Counted, kept: tuple[str, int] | None) -> None:
        """Write `step.json`.

        Args:
            answer: the program's.
            counted: kernels and steps.
            kept: name and steps of the raw trace; None where there is none.
        """
        told = {
            "model": self.plan.model,
            "framework": self.plan.framework.name,
            "version": self.plan.framework.version,
            "recorder": self.plan.recorder,
            "steps": self.steps,
            "counted_steps": counted.steps,
            "kernels": counted.launches,
            "raw": kept[0] if kept else None,
            "raw_steps": kept[1] if kept else None,
            **answer,
        }
        (self.folder / "step.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _plain(recording: _Recording) -> None:
    answer = recording.answer(recording.run(recording.command(recording.steps)))
    recording.finish({**answer, "plain_step_ns": answer["step_ns"]}, _Counted(), None)


def _traced(recording: _Recording) -> None:
    """Record by a profiler that runs in the program."""
    lengths: tuple[int, ...] = (recording.steps, *SHORT[recording.day.dry])
    try:
        ended = recording.run(recording.command(recording.steps))
    except OutOfTime:
        if not (recording.work / "answer.json").exists():
            raise
        ended, lengths = 0, lengths[:1]  # the answer comes before the shorter traces
    answer = recording.answer(ended)
    traces = [(steps, path) for steps in lengths if (path := recording.trace(steps)) is not None]
    if not traces or traces[0][0] != recording.steps:
        raise NotRecorded(f"the profiler left no trace of {recording.steps} steps")
    notes, counted = _table(recording, traces, answer["on_gpu"])
    kept = recording.keep(traces)
    recording.finish({**answer, "notes": [*answer["notes"], *notes]}, counted, kept)


def _table(recording: _Recording, traces: list[tuple[int, Path]], on_gpu: bool) -> tuple[list[str], _Counted]:
    """Write the table of kernels of the first trace that has them all, else of the first that has some.

    Traces are given as steps and file. What is wrong with one is noted; none is written where no trace has kernels of a
    step on a GPU, for that would say that none ran.
    """
    notes, some = [], None
    for steps, trace in traces:
        try:
            found = kernels.READ[recording.plan.recorder](trace)
            lost = kernels.lost_by_kineto(trace) if recording.plan.recorder == "kineto" else 0
        except (TcprobeError, ValueError, KeyError, sqlite3.Error) as error:
            notes.append(f"a trace of {steps} steps was not read: {str(error).replace(str(trace), trace.name)}")
            continue
        if on_gpu and not found:
            notes.append(f"a trace of {steps} steps holds no kernel: the profiler did not record the GPU")
        elif lost:
            notes.append(f"a trace of {steps} steps lacks the kernels of {lost} launches: the profiler lost them")
            some = some or found
        else:
            return notes, _write(recording, found, steps)
    return notes, _write(recording, some, None) if some else _Counted()


def _write(recording: _Recording, found: kernels.Tallies, steps: int | None) -> _Counted:
    kernels.write(recording.folder, found)
    return _Counted(sum(one.calls for one in found.values()), steps)


def _by_nsys(recording: _Recording) -> None:
    """Record by nsys around the program, and once more, shorter, where that is too large to be kept."""
    tool = recording.day.machine.nsys
    assert tool is not None
    answer, trace = _under_nsys(recording, tool, recording.steps)
    notes, counted = _table(recording, [(recording.steps, trace)], answer["on_gpu"])
    kept = recording.keep([(recording.steps, trace)])
    for steps in () if kept else SHORT[recording.day.dry]:
        try:
            kept = kept or recording.keep([(steps, _under_nsys(recording, tool, steps)[1])])
        except (NotRecorded, OutOfTime):
            notes.append(f"no raw trace of {steps} steps: the time was up, or nsys wrote none")
    recording.finish({**answer, "notes": [*answer["notes"], *notes]}, counted, kept)


def _under_nsys(recording: _Recording, tool: Tool, steps: int) -> tuple[dict[str, Any], Path]:
    """Return the program's answer and the exported trace; what nsys says of its success is not believed."""
    place = recording.work / f"trace-{steps}"
    place.mkdir()
    report, export = place / "trace.nsys-rep", place / "trace.sqlite"
    command = [tool.path, "profile", *TRACE, f"--output={place / 'trace'}", *recording.command(steps)]
    switched = {} if recording.day.dry else {"TCPROBE_GPU_SWITCH": "1"}
    ended = recording.run(command, **switched)
    answer = recording.answer(ended)
    if not report.exists():
        raise NotRecorded(f"nsys ended with status {ended} and wrote no report: {said(recording.folder / LOG)}")
    recording.run([tool.path, "export", "--type=sqlite", "--force-overwrite=true", f"--output={export}", str(report)])
    if not export.exists() or not export.stat().st_size:
        raise NotRecorded(f"nsys exported nothing: {said(recording.folder / LOG)}")
    return answer, export


def _by_ncu(recording: _Recording) -> None:
    """Count the kernels of one step; its time under Nsight Compute, which runs each many times, says nothing."""
    command = recording.command(recording.steps)
    launches = count(recording.day, command, recording.folder, recording.clock.left(), recording.environment())
    whole = json.loads((recording.folder / "count.json").read_text(encoding="utf-8"))["complete"]
    answer = {**recording.answer(0), "step_ns": None, "mean_step_ns": None}
    if not whole:
        answer |= {"counted_steps": None, "notes": [*answer["notes"], "not all kernels of the step were counted"]}
    recording.finish(answer, _Counted(launches, recording.steps), ("ncu.csv.gz", recording.steps))


RECORDERS: Final = {"plain": _plain, "xspace": _traced, "kineto": _traced, "nsys": _by_nsys, "ncu": _by_ncu}
