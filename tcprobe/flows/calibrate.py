"""`calibrate` as a function: measure products on this machine's GPU, fit the cost model to them, keep the constants."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from tcprobe.bypath import scratch_folder
from tcprobe.calibration.files import file_of, gpu_of, read_raw, text_of
from tcprobe.calibration.plan import Case, cases_for, dry_cases
from tcprobe.calibration.start import FRAMEWORKS, Device, MeasureResult, ask_device, measure_cases, stack_of
from tcprobe.cost.alignment import Library
from tcprobe.cost.measured import CPU, Measurement, csv_of
from tcprobe.errors import MeasurementFailed, OutputError, ToolError, UsageError, cannot_write, writing
from tcprobe.flows.write import Say, refuse_existing, write_files
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.identify import identify
from tcprobe.schema.provenance import Stack

if TYPE_CHECKING:
    from tcprobe.calibration.files import Score

BUDGET_S: Final = 240.0
LEAST_S: Final = 1.0
TENSOR_CORE_SHARE: Final = 0.85
"""Share of the time for products on Tensor Cores; float32 on CUDA cores runs after them, in another process."""


class CalibrateOptions(Struct, frozen=True):
    """What the user asked of a calibration."""

    python: str | None = None  # interpreter that has the framework; None for the one that runs tcprobe
    framework: str = "auto"  # a key of `FRAMEWORKS`, or ``auto`` for the first that sees a GPU
    device: int = 0  # number of the GPU among those that the framework sees
    target: str | None = None  # id or name of the GPU in gpus.csv, if the driver's name is not in it
    budget_s: float = BUDGET_S  # seconds to measure, including the framework's import
    output: Path | None = None  # where to keep the raw CSV
    raw: Path | None = None  # raw CSV to fit instead of measuring
    force: bool = False  # replace files, and keep constants that predict worse than the shipped ones
    dry_run: bool = False  # measure a little on the CPU, fit nothing


class MeasuredRun(Struct, frozen=True):
    """The measurements of a calibration."""

    device: Device  # framework and device
    done: MeasureResult  # how far the plan got
    seconds: float  # how long it took
    rows: tuple[Measurement, ...]  # the measured products
    raw: Path | None  # the CSV that was kept; None if none was asked for


class Calibrated(Struct, frozen=True):
    """The result of a calibration."""

    measured: MeasuredRun | None  # None if the products came from a file
    gpu: Gpu | None = None  # the GPU of the constants; None for a dry run
    scores: tuple[Score, ...] = ()  # errors on products that were not fitted, ``all`` last
    path: Path | None = None  # the file of constants; None for a dry run
    # True if the constants predict worse than the shipped ones and were kept only because of `force`
    worse: bool = False
    stack: Stack | None = None  # what timed the products; None for a dry run


def calibrate(options: CalibrateOptions, say: Say) -> Calibrated:
    """Measure and fit, or only one of the two if asked.

    Raises:
        UsageError: options contradict each other, or the GPU has to be named.
        InputError: the raw CSV cannot be used.
        ToolError: no framework sees a GPU.
        OutputError: a file exists or cannot be written.
        MeasurementFailed: too little was measured, or the constants predict worse than the shipped ones.
    """
    if options.raw is not None:
        _only_fit(options)
        rows = read_raw(options.raw)
        gpu = gpu_of(rows, options.raw, options.target)
        _check_place(file_of(gpu.id), options.force, create=True)
        return _fitted(tuple(row for row in rows if row.gpu == gpu.id), gpu, options, None)
    if options.output is not None:
        _check_place(options.output, options.force)
    if options.dry_run:
        return Calibrated(_dry_run(options, say))
    return _measured_and_fitted(options, say)


def _only_fit(options: CalibrateOptions) -> None:
    told = {
        "--dry-run": options.dry_run,
        "-o": options.output is not None,
        "--framework": options.framework != "auto",
        "--device": options.device != 0,
        "--budget": options.budget_s != BUDGET_S,
    }
    for name in (name for name, given in told.items() if given):
        raise UsageError(f"--from measures nothing: {name} does not go with it", f"leave {name} out")


def _check_place(path: Path, force: bool, create: bool = False) -> None:
    """Fail before the work is done if its result could not be written afterwards."""
    refuse_existing([path], force)
    folder = path.parent
    while create and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise OutputError(f"{path}: there is no folder {folder}", None if create else f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        raise cannot_write(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _dry_run(options: CalibrateOptions, say: Say) -> MeasuredRun:
    if options.target is not None:
        raise UsageError("--dry-run measures the CPU: --target-gpu does not go with it", "leave --target-gpu out")
    start = time.monotonic()
    device = _device(options, CPU)
    return _measure(options, device, [dry_cases()], start, say)


def _measured_and_fitted(options: CalibrateOptions, say: Say) -> Calibrated:
    start = time.monotonic()
    device = _device(options, f"gpu:{options.device}")
    gpu = _gpu(device, options.target)
    _check_place(file_of(gpu.id), options.force, create=True)
    cases = cases_for(gpu, _library(device), device.framework)
    plain = [case for case in cases if case.dtype == "float32"]
    cores = [case for case in cases if case.dtype != "float32"]
    measured = _measure(options, device, [part for part in (cores, plain) if part], start, say)
    return _fitted(measured.rows, gpu, options, measured)


def _device(options: CalibrateOptions, device: str) -> Device:
    """Return the first framework that can be used, and what it reports about the device.

    Raises:
        ToolError: none can be used.
    """
    python = options.python or sys.executable
    reasons = []
    for framework in FRAMEWORKS if options.framework == "auto" else (options.framework,):
        found = ask_device(python, framework, device)
        if isinstance(found, Device):
            return found
        reasons.append(found)
    if device == CPU:
        raise ToolError(f"nothing to measure through: {'; '.join(reasons)}", "--python names another interpreter")
    raise ToolError(
        f"no GPU to measure on: {'; '.join(reasons)}",
        "--python names another interpreter; --dry-run measures a little on the CPU, to try it out",
    )


def _gpu(device: Device, target: str | None) -> Gpu:
    named = identify(device.compute_capability, device.sm, None, device.memory_bytes, name=device.gpu).gpu
    wanted = find_gpu(target) if target is not None else None
    if named is None and wanted is None:
        raise UsageError(
            f"{device.gpu}: gpus.csv does not have this GPU",
            "--target-gpu names the one whose figures hold for it; tcprobe explain gpus lists them",
        )
    if named is not None and wanted is not None and named != wanted:
        raise UsageError(f"the GPU here is {named.id}, not {wanted.id}", "leave --target-gpu out")
    found = named or wanted
    assert found is not None
    return found


def _library(device: Device) -> Library:
    """Return which cuBLAS a framework runs, from the CUDA version that it was built for.

    Raises:
        MeasurementFailed: it does not say, so the measurements could not be attributed.
    """
    if device.library is None:
        raise MeasurementFailed(f"{device.title} does not say for which CUDA it was built", "measure through another")
    return device.library


def _measure(
    options: CalibrateOptions, device: Device, parts: Sequence[Sequence[Case]], start: float, say: Say
) -> MeasuredRun:
    """Measure the parts of a plan one by one, keeping rows as they come if the raw CSV is wanted."""
    where = (device.framework, CPU if device.gpu is None else f"gpu:{options.device}")
    say(f"measuring through {device.text}, at most {options.budget_s:g} s")
    done: list[MeasureResult] = []
    with _rows(options, say) as path:
        for number, part in enumerate(parts):
            end = start + options.budget_s * (1.0 if number == len(parts) - 1 else TENSOR_CORE_SHARE)
            left = end - time.monotonic()
            done.append(
                measure_cases(options.python or sys.executable, where, part, path, left, device.text)
                if left > LEAST_S
                else MeasureResult(0, len(part), {})
            )
        failed = {reason: count for d in done for reason, count in d.failed.items()}
        measured, left, broken = (
            sum(count) for count in zip(*((d.measured, d.left, d.broken) for d in done), strict=True)
        )
        whole = MeasureResult(measured, left, failed, broken)
        if not whole.measured:
            reason = next(iter(failed), "the time was up before the first product (--budget gives more)")
            raise MeasurementFailed(f"nothing was measured: {reason}")
        rows = tuple(read_raw(path))
    return MeasuredRun(device, whole, time.monotonic() - start, rows, options.output)


@contextmanager
def _rows(options: CalibrateOptions, say: Say) -> Iterator[Path]:
    """Provide a CSV to append rows to; after a failure, what was measured stays beside its place as ``FILE.part``."""
    if options.output is None:
        with scratch_folder("tcprobe-calibrate-") as folder:
            path = folder / "raw.csv"
            path.write_text(csv_of([]), encoding="utf-8")
            yield path
        return
    part = options.output.with_name(options.output.name + ".part")
    _check_place(part, options.force)
    header = csv_of([])
    try:
        part.write_text(header, encoding="utf-8")
        yield part
        part.replace(options.output)
    except OSError as error:
        raise cannot_write(options.output, error) from error
    finally:
        if part.is_file():
            if part.stat().st_size > len(header):
                say(f"{part}: what was measured until then; --from fits it")
            else:
                with suppress(OSError):  # what failed before is what counts
                    part.unlink()


def _fitted(
    rows: tuple[Measurement, ...], gpu: Gpu, options: CalibrateOptions, measured: MeasuredRun | None
) -> Calibrated:
    """Fit three quarters of the rows, test on the rest, and keep the constants if they beat the shipped ones.

    Raises:
        MeasurementFailed: impossible times, too few products, or worse constants; nothing is written then.
        OutputError: the file cannot be written.
    """
    from tcprobe.calibration.files import scores, split_rows, too_fast
    from tcprobe.cost.fit import FEWEST, fit

    if (wrong := too_fast(rows, gpu)) and not options.force:
        raise MeasurementFailed(
            f"{len(wrong)} of {len(rows)} products beat the peak of {gpu.id}: no times of this GPU, nothing was kept",
            "is it the GPU that the rows name? --force fits them all the same",
        )
    train, held = split_rows(rows)
    source = "; ".join(dict.fromkeys(row.source for row in rows if row.source))
    constants = fit(train, gpu, source, tf32=False, stack=stack_of(rows))
    found = scores(held, gpu, constants) if constants is not None else []
    if constants is None or not found:
        raise MeasurementFailed(
            f"too few products to fit {gpu.id}: {len(rows)}, and {FEWEST} aligned GEMMs of a dtype are the least",
            "--budget gives more time",
        )
    total = found[-1]
    worse = total.error_pct > total.shipped_pct
    if worse and not options.force:
        raise MeasurementFailed(
            f"these constants predict worse than the shipped ones: off by {total.error_pct:.1f} % in place of "
            f"{total.shipped_pct:.1f} % on {total.rows} products not fitted; nothing was kept",
            "is something else running on the GPU? --force keeps them all the same",
        )
    path = file_of(gpu.id)
    text = text_of(constants, total, date.today().isoformat(), len(train))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_files([(path, lambda out: out.writelines([text]))], options.force)
    return Calibrated(measured, gpu, tuple(found), path, worse, constants.stack)
