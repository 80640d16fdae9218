"""Write the notes on how an XSpace was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tcprobe.readers.xspace.gpu import Gpu
from tcprobe.readers.xspace.wire import Space
from tcprobe.schema.profile import Note

EVENT_CAP: Final = 2 * 1024 * 1024  # CUPTI tracer of xla/backends/profiler/gpu: max_activity_api_events
SHORTEN: Final = "profile fewer steps"

# text in XSpace.errors or warnings -> code, remedy; the first that fits
_SAID: Final = (
    (
        ("INSUFFICIENT_PRIVILEGES", "insufficient privilege", "NVreg_RestrictProfilingToAdminUsers"),
        "cupti-permission",
        "set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia kernel module, or run with CAP_SYS_ADMIN",
    ),
    (
        ("libcupti", "CUPTI_ERROR_NOT_INITIALIZED", "cupti is not available"),
        "cupti-missing",
        "install the CUPTI of TensorFlow's CUDA version and put it on LD_LIBRARY_PATH",
    ),
    (
        ("MULTIPLE_SUBSCRIBERS", "already in use", "another profiler"),
        "cupti-busy",
        "run under one profiler at a time",
    ),
    (("reaches max", "max_activity_api_events"), "event-cap", SHORTEN),
    (("dropped", "Dropped"), "events-lost", SHORTEN),
)


def said_notes(space: Space) -> Iterator[Note]:
    """Yield a note for each error and warning that the profiler left in the file."""
    for text in dict.fromkeys(space.errors):
        yield _said(text, "profiler-error", True)
    for text in dict.fromkeys(space.warnings):
        yield _said(text, "profiler-warning", False)


def _said(text: str, code: str, error: bool) -> Note:
    line = " ".join(text.split())[:300]
    message = f"the profiler says: {line}"
    for needles, known, remedy in _SAID:
        if any(needle.lower() in text.lower() for needle in needles):
            return Note(known, message, remedy, "error" if error else "warning")
    return Note(code, message, None, "error" if error else "warning")


def gpu_notes(gpus: Sequence[Gpu]) -> Iterator[Note]:
    """Yield notes on what the GPU planes hold and lack."""
    recorded = sum(len(gpu.kernels) + len(gpu.memory) for gpu in gpus)
    if not any(len(gpu.kernels) for gpu in gpus):
        yield Note(
            "gpu-plane-empty",
            f"the profile has {len(gpus)} GPU plane{'s' * (len(gpus) != 1)} and no kernel: the GPU was not measured",
            "check that the steps ran on the GPU, that the CUPTI of TensorFlow's CUDA version is on LD_LIBRARY_PATH, "
            "and that the driver lets users profile (NVreg_RestrictProfilingToAdminUsers=0)",
            "error",
        )
    if recorded >= EVENT_CAP:
        message = f"the profile holds {recorded} GPU events, the most that the tracer keeps: later ones are missing"
        yield Note("event-cap", message, SHORTEN)
    yield from _vendor_notes(gpus)
    yield from _odd_event_notes(gpus)


def _vendor_notes(gpus: Sequence[Gpu]) -> Iterator[Note]:
    vendors = {str(gpu.stats["device_vendor"]) for gpu in gpus if "device_vendor" in gpu.stats}
    for vendor in sorted(v for v in vendors if v.lower() != "nvidia"):
        yield Note("not-nvidia", f"the GPU is of {vendor}, not an NVIDIA GPU: Tensor Cores do not apply", None)


def _odd_event_notes(gpus: Sequence[Gpu]) -> Iterator[Note]:
    launches = sum(gpu.graph_launches for gpu in gpus)
    if launches:
        yield Note(
            "cuda-graphs",
            f"{launches} CUDA graph launches are recorded as one event each: the kernels inside them are missing",
            "profile with XLA_FLAGS=--xla_gpu_enable_command_buffer=",
        )
    unclassed = sum(gpu.unclassed for gpu in gpus)
    if unclassed:
        yield Note("gpu-events-unclassed", f"{unclassed} GPU events are neither kernels nor copies and not counted")
