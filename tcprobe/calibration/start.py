"""Start the measuring program in the framework's interpreter, and stop it if it does not end by itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tcprobe.bypath import StandalonePackage, ending, last_line, run_to_end, scratch_folder
from tcprobe.calibration.measure import BACKENDS
from tcprobe.calibration.plan import Case
from tcprobe.cost.alignment import Library
from tcprobe.cost.measured import CPU, MEASUREMENT_COLUMNS, Measurement
from tcprobe.errors import MeasurementFailed, ToolError
from tcprobe.foreign import real_path
from tcprobe.jsonfile import read_object
from tcprobe.schema.provenance import Stack

PROGRAM: Final = StandalonePackage(Path(__file__).parent / "measure", "tcprobe_measure", "the measuring program")
FRAMEWORKS: Final = {backend.NAME: backend.TITLE for backend in BACKENDS}
"""Names of frameworks, as imported -> as called, in the order in which they are tried."""
ABOUT_S: Final = 180.0  # importing a framework from a cold, remote disk can take a minute
GRACE_S: Final = 120.0  # beyond the budget; after that the program counts as hanging
QUIET: Final = {"TF_CPP_MIN_LOG_LEVEL": "2", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
NO_TF32: Final = {"NVIDIA_TF32_OVERRIDE": "0"}
"""Keeps NVIDIA's libraries from ever using TF32, whatever a framework asks for or its autotuning remembers."""
CPU_ONLY: Final = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
WARM_S: Final = 1.0  # an idle GPU takes much of a second to raise its clocks


class Device(Struct, frozen=True):
    """What a framework reports about itself and the device; None if it does not say."""

    framework: str  # its name, as imported
    title: str  # name with version
    gpu: str | None = None  # name of the GPU; None on a CPU
    compute_capability: tuple[int, int] | None = None  # major, minor
    sm: int | None = None  # streaming multiprocessors
    memory_bytes: int | None = None  # device memory
    # cuda, cudnn: versions that the framework was built for.
    cuda: str | None = None
    cudnn: str | None = None

    @property
    def text(self) -> str:
        """Return it in one line: PyTorch 2.13.0, CUDA 13.0, cuDNN 91002, NVIDIA H200."""
        versions = [f"CUDA {self.cuda}" if self.cuda else "", f"cuDNN {self.cudnn}" if self.cudnn else ""]
        return ", ".join(part for part in (self.title, *versions, self.gpu or "CPU") if part)

    @property
    def library(self) -> Library | None:
        """Return which cuBLAS the framework runs, from the CUDA it was built for; None if it does not say."""
        major = (self.cuda or "").partition(".")[0].split(" ")[0]
        if not major.isdigit():
            return None
        return "cublas12" if int(major) >= 12 else "cublas11" if int(major) == 11 else "cublas10"


class MeasureResult(Struct, frozen=True):
    """How far measuring a plan got."""

    measured: int  # rows written
    left: int  # cases not reached in time
    failed: Mapping[str, int]  # reason -> number of cases that could not be computed
    broken: int = 0  # cases not begun, as the device had failed in one before them


def stack_of(rows: Iterable[Measurement]) -> Stack:
    """Return what timed products: the framework that `Device.text` puts first in their source, else an unknown one."""
    titles = dict.fromkeys(row.source.partition(",")[0].strip() for row in rows)
    known = all(title.startswith(tuple(FRAMEWORKS.values())) for title in titles)
    return Stack("framework" if known else "unknown", " and ".join(title for title in titles if title))


def ask_device(python: str, framework: str, device: str) -> Device | str:
    """Return what a framework reports about a device, or why it cannot be used.

    Args:
        python: the interpreter.
        framework: a key of `FRAMEWORKS`.
        device: ``cpu`` or ``gpu:N``.

    Raises:
        ToolError: the interpreter does not start, or crashes.
        MeasurementFailed: the framework did not answer in time.
    """
    answer = _run(python, {"framework": framework, "device": device, "tf32": True}, {}, ABOUT_S)
    if "unusable" in answer:
        return str(answer["unusable"])
    return device_of(framework, answer["about"])


def device_of(framework: str, about: Mapping[str, Any]) -> Device:
    """Return what a measuring program's answer says of the device."""
    capability = about.get("compute_capability")
    return Device(
        framework,
        f"{about['framework']} {about['version']}",
        about.get("gpu"),
        (int(capability[0]), int(capability[1])) if capability else None,
        about.get("sm"),
        about.get("memory_bytes"),
        about.get("cuda"),
        about.get("cudnn"),
    )


def measure_cases(
    python: str, device: tuple[str, str], cases: Sequence[Case], rows: Path, seconds: float, source: str
) -> MeasureResult:
    """Measure cases one by one until all are done or the time is up, appending whole rows to a CSV.

    Args:
        python: the interpreter.
        device: the framework, and ``cpu`` or ``gpu:N``.
        cases: float32 on CUDA cores may not be mixed with others.
        rows: an existing CSV with its header.
        seconds: time from now on, including the framework's import.
        source: description of the measurements.

    Raises:
        ToolError, MeasurementFailed: as in `ask_device`.
    """
    plain = device[1] != CPU and all(case.dtype == "float32" for case in cases)
    dry = device[1] == CPU
    orders = {
        "framework": device[0],
        "device": device[1],
        "tf32": not plain,
        "cases": [{"row": case.row, "sets": case.sets} for case in cases],
        "rows": str(real_path(rows)),
        "columns": MEASUREMENT_COLUMNS,
        "source": source,
        "seconds": seconds,
        "sample_ms": 1 if dry else 10,
        "warm_ms": 0 if dry else 20,
        "warm_s": 0 if dry else WARM_S,
    }
    answer = _run(python, orders, NO_TF32 if plain else {}, seconds + GRACE_S)
    if "unusable" in answer:
        raise MeasurementFailed(str(answer["unusable"]))
    return MeasureResult(answer["measured"], answer["left"], answer["failed"], answer.get("broken", 0))


def _run(python: str, orders: Mapping[str, Any], environment: Mapping[str, str], seconds: float) -> dict[str, Any]:
    hidden = CPU_ONLY if orders["device"] == CPU else {}
    with scratch_folder("tcprobe-calibrate-") as folder:
        out, log = folder / "answer.json", folder / "log"
        command = PROGRAM.command(python, folder, {**orders, "out": str(out)}, folder / "orders.json", link=True)
        status = run_to_end(command, {**QUIET, **os.environ, **hidden, **environment}, log, log, seconds)
        if answer := read_object(out):
            return answer
        last = last_line(log)
    said = f": {last}" if last else ""
    framework = FRAMEWORKS[str(orders["framework"])]
    if status is None:
        raise MeasurementFailed(
            f"{framework} did not come to an end within {seconds:g} s{said}", "measure less at once"
        )
    raise ToolError(f"{python}: measuring through {framework} {ending(status)}{said}", "--framework names another one")
