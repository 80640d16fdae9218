"""`doctor` as a function: look at GPU, driver, frameworks, profilers and machine, and say what stops a recording."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from tcprobe.bypath import scratch_folder
from tcprobe.capture import CAPTURES, dlprof, environment, ncu, nsys, program, smi
from tcprobe.capture.doctor import machine, trial
from tcprobe.capture.doctor.look import Look, installed, look_at
from tcprobe.capture.program import Build, Profiler
from tcprobe.errors import EmptyInput, InputError, MeasurementFailed, ToolError, UsageError
from tcprobe.flows.profile import ProfileOptions, choose_capture
from tcprobe.flows.report import make_report
from tcprobe.identify import identify
from tcprobe.readers.open import open_profile
from tcprobe.report.run.lacks import Lack, lacks_of
from tcprobe.schema.statement import Check, CheckKind, FieldValue, Statement

ALL: Final = tuple(capture.NAME for capture in CAPTURES)
TENSORFLOW: Final = "tensorflow"
FRAMEWORKS: Final[tuple[str, ...]] = (TENSORFLOW, "torch", "jax")
DRIVERS: Final = ((580, 13), (525, 12), (450, 11), (410, 10), (384, 9))
"""Major version of a driver -> major version of the CUDA that it runs, newest first.

Source: CUDA Toolkit Release Notes, minimum required driver versions (from 11 on, for minor version compatibility).
"""
# DLProf Release Notes 21.12: its last version is for CUDA 11.5, TensorFlow to 2.6.2 and PyTorch to 1.11.
DLPROF_GPUS_BELOW: Final = (8, 9)
DLPROF_KNOWS: Final = {TENSORFLOW: (2, 6), "torch": (1, 11)}
LOW_BYTES: Final = 2 * 2**30  # a recording of Nsight Systems and its export take some hundred MB
FULL_BYTES: Final = 100 * 2**20


class Diagnosis(Struct, frozen=True):
    """What was looked at, and for whom it is judged."""

    profiler: str  # name of the capture that would record
    checks: tuple[Check, ...]

    @property
    def problems(self) -> int:
        """How many checks stop it."""
        return sum(check.state(self.profiler) == "problem" for check in self.checks)


def diagnose(python: str | None = None, profiler: str = "auto") -> Diagnosis:
    """Look at all that a recording needs; nothing of it is imported into this process.

    Args:
        python: interpreter that would run the workload; None for tcprobe's own.
        profiler: as ``--profiler`` of `profile` has it.

    Raises:
        ToolError: the interpreter cannot be started.
    """
    python = python or sys.executable
    chosen = choose_capture(ProfileOptions((), profiler, python))[0].NAME
    info = environment.ask_interpreter(python)
    devices, answer = smi.devices()
    checks = [*_gpus(devices, answer), *_counters()]
    if not info.runs_probe:
        old = Check("python", _seen("python_old", version=info.python), (TENSORFLOW,), limits=True)
        return Diagnosis(chosen, (*checks, old, *_programs(python, devices, {}), *_machine()))
    there = installed(python, *FRAMEWORKS, "nvtx")
    looks = {name: look_at(python, name) for name in FRAMEWORKS if name in there}
    checks.append(Check("python", _seen("python", version=info.python)))
    for name in FRAMEWORKS:
        checks += _framework(name, looks.get(name), devices)
    programs = tuple(_programs(python, devices, looks))
    checks.append(_nvtx(there.get("nvtx"), programs))
    return Diagnosis(chosen, (*checks, *programs, *_machine()))


def lacks(path: Path) -> list[Lack]:
    """Return what a profile lacks; one in which a GPU left no kernel lacks these.

    Raises:
        InputError, UsageError: as `make_report`.
    """
    try:
        return list(lacks_of(make_report(path), str(path)))
    except MeasurementFailed as error:
        return [Lack("problem", "kernels", error.message, None, error.hint)]


def _seen(kind: CheckKind, /, **fields: FieldValue) -> Statement[CheckKind]:
    return Statement(kind, tuple(fields.items()))


def _gpus(devices: tuple[smi.Device, ...], answer: smi.Answer) -> Iterator[Check]:
    if not devices:
        kind: CheckKind = answer.failure or "smi_failed"
        silent = kind in ("smi_missing", "smi_silent")
        yield Check("gpu", _seen(kind) if silent else _seen(kind, text=answer.text), ALL)
        return
    for device in devices:
        about = f"gpu {device.index}"
        has = identify(device.capability, None, None, device.memory_bytes, name=device.name).tensor_cores
        capability = ".".join(map(str, device.capability)) if device.capability else None
        figures = {"memory_bytes": device.memory_bytes, "compute_capability": capability}
        yield Check(about, _seen("gpu", name=device.name, tensor_cores=has, **figures), limits=has != "yes")
        if device.mig and device.instances:
            yield Check(about, _seen("mig", instances=device.instances), limits=True)
        elif device.mig:
            yield Check(about, _seen("mig_empty"), ALL)
    if version := devices[0].driver:
        yield Check("driver", _seen("driver", version=version, cuda=_cuda_of(version)))


def _cuda_of(driver: str) -> int | None:
    """Return the newest major version of CUDA that a driver runs without NVIDIA's compatibility package."""
    major = int(driver.partition(".")[0] or 0)
    return next((cuda for least, cuda in DRIVERS if major >= least), None)


def _counters() -> Iterator[Check]:
    match machine.counters():
        case "free":
            yield Check("counters", _seen("counters_free"))
        case "root":
            yield Check("counters", _seen("counters_root"))
        case "admin":
            yield Check("counters", _seen("counters_admin"), (ncu.NAME,), limits=True)


def _framework(name: str, look: Look | None, devices: tuple[smi.Device, ...]) -> Iterator[Check]:
    own = (TENSORFLOW,) if name == TENSORFLOW else ()
    if look is None:
        yield Check(name, _seen("framework_absent", framework=name), own, limits=bool(own))
        return
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    driver = _cuda_of(devices[0].driver) if devices and devices[0].driver else None
    wants = int(look.cuda.partition(".")[0]) if look.cuda and look.cuda.partition(".")[0].isdigit() else None
    seen: Mapping[str, str | int | None] = {"version": look.version, "cuda": look.cuda}
    if look.silent:
        yield Check(name, _seen("framework_silent"), own, limits=True)
    elif look.failure:
        yield Check(name, _seen("framework_broken", framework=name, text=look.failure), own, limits=True)
    elif look.gpus:
        yield Check(name, _seen("framework", gpus=look.gpus, **seen))
    elif driver is not None and wants is not None and wants > driver:
        least = next(least for least, cuda in DRIVERS if cuda <= wants)
        yield Check(name, _seen("framework_too_new", least=least, driver=devices[0].driver, **seen), own, limits=True)
    else:
        fact = _seen("framework_blind", framework=name, here=bool(devices), hidden=hidden, **seen)
        yield Check(name, fact, own if devices else (), limits=True)
    if look.cupti is not None:
        fact = _seen("cupti") if look.cupti else _seen("cupti_absent", cuda=look.cuda)
        yield Check("cupti", fact, limits=not look.cupti)


def _nvtx(version: str | None, programs: Sequence[Check]) -> Check:
    """Return which package nvtx is there; a warning where nsys heard a trial's range only without it."""
    unheard = any(one.fact.get("by") == "ctypes" for one in programs)
    if version and unheard:
        return Check("nvtx", _seen("nvtx_mute", version=version), limits=True)
    return Check("nvtx", _seen("nvtx", version=version))


def _ranges(python: str, build: Build) -> Iterator[Check]:
    """Yield whether nsys hears ranges; it is run for a moment."""
    if os.environ.get(nsys.DISABLED):
        yield Check("ranges", _seen("nvtx_disabled", variable=nsys.DISABLED), limits=True)
        return
    tried = nsys.try_ranges(python, build)
    if not tried.by and tried.reported is not None:  # two that start at once may fail on a semaphore of nsys's
        tried = nsys.try_ranges(python, build)
    fact = _seen("nvtx_heard", by=tried.by) if tried.by else _seen("nvtx_unheard", text=tried.text)
    yield Check("ranges", fact, () if tried.by else (nsys.NAME,), limits=not tried.by)
    if tried.reported is None:
        yield Check(nsys.NAME, _seen("nsys_endless"), limits=True)
    elif tried.by and not tried.reported:
        yield Check(nsys.NAME, _seen("no_importer"), (nsys.NAME, dlprof.NAME), limits=True)


def _programs(python: str, devices: tuple[smi.Device, ...], looks: Mapping[str, Look]) -> Iterator[Check]:
    builds: dict[str, Build] = {}
    asks: tuple[tuple[Profiler, Callable[[], Build]], ...] = (
        (nsys.NSYS, lambda: program.ask_build(nsys.NSYS, ())),
        (ncu.NCU, lambda: program.ask_build(ncu.NCU, ())),
        (dlprof.DLPROF, lambda: dlprof.ask_build(())),
    )
    for profiler, ask in asks:
        name = profiler.program
        try:
            if program.missing(profiler, ()):
                fact = _seen("tool_absent", remedy=profiler.install)
                yield Check(name, fact, (name,), limits=profiler is not dlprof.DLPROF)
                continue
            builds[name] = ask()
        except ToolError as error:
            yield Check(name, _seen("tool_failed", text=error.message, remedy=error.hint), (name,), limits=True)
            continue
        yield Check(name, _seen("tool", version=builds[name].version, path=shutil.which(name)))
    if nsys.NAME in builds:
        yield from _ranges(python, builds[nsys.NAME])
    if dlprof.NAME in builds:
        yield from _pairs_of_dlprof(devices, looks, nsys.NAME in builds)
    yield from _trials(python, bool(devices), builds, looks)


def _trials(python: str, has_gpu: bool, builds: Mapping[str, Build], looks: Mapping[str, Look]) -> Iterator[Check]:
    """Yield what each profiler records of a moment on a GPU, or why none is tried."""
    if not has_gpu:
        yield Check("trial", _seen("trial_without_gpu"), limits=True)
        return
    own = TENSORFLOW in looks and bool(looks[TENSORFLOW].gpus)
    with scratch_folder("tcprobe-doctor-") as folder:
        plain = trial.launch(python, folder)
        if plain.failed:
            yield Check("trial", _seen("trial_not_launched", text=plain.text), limits=True)
            return
        for name, place, command in trial.commands(python, builds, own, folder):
            (folder / name).mkdir()
            made = trial.run(tuple(command), folder / f"{name}.log")
            if name == nsys.NAME and not made.ended:
                nsys.end_trial(folder)
            yield _tried(name, place, made)


def _tried(name: str, place: Path, made: trial.Trial) -> Check:
    if not made.ended:
        return Check(name, _seen("trial_endless", seconds=trial.LONGEST_S), (name,), limits=True)
    text, remedy = made.text, None
    try:
        profile = open_profile(place)
        kernels = len(profile.require("launches")) or int(np.nansum(profile.require("kernels").numbers("calls")))
        if kernels:
            return Check(name, _seen("trial", kernels=kernels, seconds=made.seconds))
    except (InputError, UsageError) as error:
        if not isinstance(error, EmptyInput) or place.is_file():  # an empty folder says less than the profiler did
            text, remedy = error.message, error.hint
    return Check(name, _seen("trial_empty", text=text, remedy=remedy), (name,), limits=True)


def _pairs_of_dlprof(devices: tuple[smi.Device, ...], looks: Mapping[str, Look], has_nsys: bool) -> Iterator[Check]:
    """Yield what is known not to work with DLProf, or not to be measured."""
    if not has_nsys:
        yield Check(dlprof.NAME, _seen("dlprof_alone"), (dlprof.NAME,), limits=True)
    newer = [d.name for d in devices if d.capability and d.capability >= DLPROF_GPUS_BELOW]
    if newer:
        yield Check(dlprof.NAME, _seen("dlprof_before_gpu", gpu=newer[0]), (dlprof.NAME,), limits=True)
    for name, last in DLPROF_KNOWS.items():
        version = environment.version_tuple(looks[name].version) if name in looks else None
        if version and version > last:
            fact = _seen(
                "dlprof_before_framework", framework=name, version=looks[name].version, last=f"{last[0]}.{last[1]}"
            )
            yield Check(dlprof.NAME, fact, limits=True)


def _machine() -> Iterator[Check]:
    name, amx = machine.cpu()
    yield Check("cpu", _seen("cpu", name=name, amx=amx))
    if kind := machine.container():
        yield Check("container", _seen("container", container=kind))
    free = shutil.disk_usage(Path()).free
    kept: CheckKind = "disk_full" if free < FULL_BYTES else "disk_low" if free < LOW_BYTES else "disk"
    yield Check("disk", _seen(kept, free_bytes=free), ALL if free < FULL_BYTES else (), limits=free < LOW_BYTES)
