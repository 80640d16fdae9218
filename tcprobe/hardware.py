"""The GPUs of ``gpus.csv``: their Tensor Cores and peak rates, and which of them a profile ran on.

Each row of the file is a GPU with its source; `evidence` says whether its figures were checked against a published
table or follow from the formulas SMs x FMA per clock and SM x 2 x clock.
Peaks are dense and, for Tensor Cores, accumulate in float32, as frameworks do (GeForce cards then run at half the
rate that is advertised for accumulation in float16).
"""

from __future__ import annotations

import csv
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, Literal, cast

from tcprobe.errors import UsageError

Capability = tuple[int, int]
HasTensorCores = Literal["yes", "no", "unknown"]
Board = Literal["sxm", "pcie", "nvl", "superchip", "mobile", "soc"]

DEFAULT_TARGET: Final = "a100-sxm-40"  # a run without a GPU is judged for this one
FIRST_WITH_TENSOR_CORES: Final = (7, 0)
# Largest TU116 has 24 SMs (GTX 1660 Ti), smallest TU106 30 (RTX 2060): NVIDIA Turing architecture whitepaper.
TURING_SMS_WITHOUT_TENSOR_CORES: Final = 24
TURING_WITHOUT_TENSOR_CORES: Final = re.compile(
    r"\b(?:GTX\s*16\d\d|MX\s*(?:450|550)|T\s*(?:400|500|550|600|1000|1200|2000))\b", re.IGNORECASE
)
# A driver reports the theoretical bandwidth from memory clock and bus width; datasheets round it (GB200: 0.9 %).
BANDWIDTH_TOLERANCE: Final = 0.02
# Firmware and ECC reserve a part of the memory: a T4 reports 92 % of its 16 GiB.
MEMORY_SHARE: Final = (0.90, 1.01)
# The highest clock a driver reports exceeds the boost clock of the datasheet by up to 8 % (H100: 1980 against 1830).
CLOCK_TOLERANCE: Final = 0.12
CLOCK_TIE_BREAK: Final = 0.04
GIB: Final = 2**30

# dtype, spelled as by frameworks and kernel names -> column of gpus.csv, in TFLOP/s (TOP/s for int8)
_PEAK_COLUMNS: Final = {
    "fp32": "fp32_tflops",
    "float32": "fp32_tflops",
    "tf32": "tf32_tc_tflops",
    "fp16": "fp16_tc_fp32acc_tflops",
    "float16": "fp16_tc_fp32acc_tflops",
    "bf16": "bf16_tc_tflops",
    "bfloat16": "bf16_tc_tflops",
    "fp8": "fp8_tc_fp32acc_tflops",
    "float8": "fp8_tc_fp32acc_tflops",
    "float8_e4m3fn": "fp8_tc_fp32acc_tflops",
    "float8_e5m2": "fp8_tc_fp32acc_tflops",
    "int8": "int8_tc_tops",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU model.

    Attributes:
        id: short name, for `--target-gpu` (``a100-sxm-40``).
        name: marketing name.
        aliases: other names that drivers report, without the brand.
        arch: generation in lower case (turing).
        chip: name of the die (TU104).
        board: what carries the chip: an SXM module, a PCIe card, one of two cards that NVLink bridges (nvl), a module
            with a Grace CPU (superchip), a laptop's mainboard (mobile), or the chip of the CPU itself (soc).
        compute_capability: major, minor.
        tensor_cores: whether it has any.
        sm: number of streaming multiprocessors.
        boost_mhz: boost clock.
        l2_bytes: size of the second-level cache.
        memory_bytes: nominal device memory.
        memory_variants: all nominal sizes that this model was sold with, in bytes.
        bandwidth_bytes_per_s: peak memory bandwidth.
        peaks: dtype -> dense peak in FLOP/s (OP/s for int8), if known.
        evidence: how the figures were checked.
        source: where the figures come from.
    """

    id: str
    name: str
    aliases: tuple[str, ...]
    arch: str
    chip: str
    board: Board
    compute_capability: Capability
    tensor_cores: bool
    sm: int
    boost_mhz: int
    l2_bytes: int
    memory_bytes: int
    memory_variants: tuple[int, ...]
    bandwidth_bytes_per_s: float
    peaks: dict[str, float] = field(hash=False)
    evidence: str
    source: str

    def peak_flop_per_s(self, dtype: str) -> float | None:
        """Return the dense peak for operands of `dtype`; None if the file has no figure.

        float32 is the CUDA cores' rate; tf32 is float32 data on Tensor Cores.
        """
        return self.peaks.get(dtype.lower())


@dataclass(frozen=True, slots=True)
class Identification:
    """Which GPU a profile ran on.

    Attributes:
        gpu: its row; None if none fits or several fit equally well.
        name: the reported name, else the row's; None if neither is known.
        basis: reported (by name), inferred (from its figures), or None.
        tensor_cores: whether it has Tensor Cores.
        reason: what decided, or why it is unknown.
    """

    gpu: Gpu | None
    name: str | None
    basis: Literal["reported", "inferred"] | None
    tensor_cores: HasTensorCores
    reason: str


def _gpu(row: dict[str, str]) -> Gpu:
    major, _, minor = row["cc"].partition(".")
    sizes = [float(s) for s in (row["mem_gb_variants"] or row["mem_gb"]).split(";")]
    return Gpu(
        id=row["id"],
        name=row["name"],
        aliases=tuple(a for a in row["aliases"].split(";") if a),
        arch=row["arch"],
        chip=row["chip"],
        board=cast("Board", row["board"]),
        compute_capability=(int(major), int(minor)),
        tensor_cores=row["tensor_cores"] == "1",
        sm=int(row["sm"]),
        boost_mhz=int(row["boost_mhz"]),
        l2_bytes=int(float(row["l2_mb"]) * 2**20),
        memory_bytes=int(float(row["mem_gb"]) * GIB),
        memory_variants=tuple(int(s * GIB) for s in sizes),
        bandwidth_bytes_per_s=float(row["mem_bw_gbs"]) * 1e9,
        peaks={dtype: float(row[c]) * 1e12 for dtype, c in _PEAK_COLUMNS.items() if row[c]},
        evidence=row["evidence"],
        source=row["source"],
    )


@lru_cache(maxsize=1)
def load_gpus() -> tuple[Gpu, ...]:
    """Return every GPU of gpus.csv, in its order."""
    data = pkgutil.get_data("tcprobe", "gpus.csv") or b""
    return tuple(_gpu(row) for row in csv.DictReader(data.decode("utf-8").splitlines()))


def _normal(name: str) -> str:
    """Bring a GPU's name to the form in which names are compared: no brand, no remark, letters and digits only."""
    name = re.sub(r"\(.*?\)", " ", name.lower())
    name = re.sub(r"\b(?:nvidia|tesla|geforce|quadro)\b", " ", name)
    return re.sub(r"[^a-z0-9]+", "", name)


@lru_cache(maxsize=1)
def _by_name() -> dict[str, Gpu]:
    return {_normal(name): gpu for gpu in load_gpus() for name in (gpu.id, gpu.name, *gpu.aliases)}


def lookup_gpu(name: str) -> Gpu | None:
    """Return the GPU with this id, marketing name or driver's name; None if the file lacks it."""
    return _by_name().get(_normal(name))


def find_gpu(name: str) -> Gpu:
    """Return the GPU with this id, marketing name or driver's name.

    Raises:
        UsageError: no GPU has this name; the message offers the nearest ids.
    """
    if found := lookup_gpu(name):
        return found
    wanted = _normal(name)
    starting = [known for known in _by_name() if wanted and known.startswith(wanted)]
    close = [*starting, *get_close_matches(wanted, _by_name(), n=5, cutoff=0.5)]
    near = list(dict.fromkeys(_by_name()[known].id for known in close))[:5]
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(g.id for g in load_gpus())}"
    raise UsageError(f"no GPU called {name!r} in gpus.csv", hint)


def spoken_name(name: str) -> str:
    """Return a GPU's name in a sentence, with its article, without brand and remarks: ``a T4``."""
    short = re.sub(r"\s*\(.*?\)", "", name).removeprefix("Tesla ").removeprefix("GeForce ")
    return f"{'an' if short[:1] in 'AEFHILMNORSX' else 'a'} {short}"


def has_tensor_cores(
    compute_capability: Capability | None, name: str | None = None, sm_count: int | None = None
) -> tuple[HasTensorCores, str]:
    """Say whether an NVIDIA GPU has Tensor Cores, and why.

    GPUs have them from compute capability 7.0 on, except the TU116 and TU117 chips, which report 7.5 like every
    Turing and are recognised by name or by SM count.
    Source: NVIDIA Turing architecture whitepaper; NVIDIA/TensorRT#892; tensorflow/tensorflow#44191.
    """
    if name and TURING_WITHOUT_TENSOR_CORES.search(name):
        return "no", f"{name}: TU116 and TU117 chips have no Tensor Cores"
    if compute_capability is None:
        return "unknown", "the profile gives no compute capability"
    version = f"compute capability {compute_capability[0]}.{compute_capability[1]}"
    if compute_capability < FIRST_WITH_TENSOR_CORES:
        return "no", f"{version}: Tensor Cores came with 7.0"
    if compute_capability != (7, 5) or name:
        return "yes", version
    if sm_count is None:
        return "unknown", f"{version} without a name or SM count may be a TU116, which has no Tensor Cores"
    if sm_count <= TURING_SMS_WITHOUT_TENSOR_CORES:
        return "no", f"{version} with {sm_count} SMs is a TU116 or TU117, which has no Tensor Cores"
    return "yes", f"{version} with {sm_count} SMs"


def _near(value: float | None, nominal: float, tolerance: float) -> bool:
    return value is None or abs(value / nominal - 1) <= tolerance


def _memory_fits(gpu: Gpu, memory_bytes: float | None) -> bool:
    low, high = MEMORY_SHARE
    return memory_bytes is None or any(low <= memory_bytes / size <= high for size in gpu.memory_variants)


def _fits(
    compute_capability: Capability,
    sm_count: int,
    bandwidth: float | None,
    memory: float | None,
    clock_mhz: float | None,
) -> Iterator[Gpu]:
    for gpu in load_gpus():
        if (
            gpu.compute_capability == compute_capability
            and gpu.sm == sm_count
            and _near(bandwidth, gpu.bandwidth_bytes_per_s, BANDWIDTH_TOLERANCE)
            and _memory_fits(gpu, memory)
            and _near(clock_mhz, gpu.boost_mhz, CLOCK_TOLERANCE)
        ):
            yield gpu


def _only(candidates: list[Gpu], test: Callable[[Gpu], bool]) -> list[Gpu]:
    """Keep only the candidate that passes if there is exactly one; else keep all."""
    passing = [gpu for gpu in candidates if test(gpu)]
    return passing if len(passing) == 1 else candidates


def identify(
    compute_capability: Capability | None,
    sm_count: int | None,
    bandwidth_bytes_per_s: float | None,
    memory_bytes: float | None,
    clock_khz: float | None = None,
    name: str | None = None,
) -> Identification:
    """Say which NVIDIA GPU has these figures.

    A name in gpus.csv decides, unless the SM count contradicts it (a cut-down variant with the same name). Otherwise
    compute capability and SM count must be equal, and bandwidth, memory and clock, if known, within the tolerances
    above; memory or bandwidth must be known. If several GPUs fit, the clock may decide between them; if it does not,
    the GPU is unknown.

    Args:
        compute_capability: major, minor.
        sm_count: number of streaming multiprocessors.
        bandwidth_bytes_per_s: theoretical peak memory bandwidth.
        memory_bytes: memory as the driver reports it, a little less than the nominal size.
        clock_khz: highest clock.
        name: name that the profile reports; None if it reports none.
    """
    named = lookup_gpu(name) if name else None
    if named and sm_count in (None, named.sm):
        cores: HasTensorCores = "yes" if named.tensor_cores else "no"
        return Identification(named, name, "reported", cores, f"reported as {name}")
    basis: Literal["reported"] | None = "reported" if name else None
    cores, why = has_tensor_cores(compute_capability, name, sm_count)
    if compute_capability is None or sm_count is None or (bandwidth_bytes_per_s is None and memory_bytes is None):
        return Identification(None, name, basis, cores, f"{why}; too few figures to tell the model")
    clock_mhz = clock_khz / 1e3 if clock_khz else None
    found = list(_fits(compute_capability, sm_count, bandwidth_bytes_per_s, memory_bytes, clock_mhz))
    if clock_mhz:
        found = _only(found, lambda gpu: _near(clock_mhz, gpu.boost_mhz, CLOCK_TIE_BREAK))
    if len(found) != 1:
        said = f"fits {' and '.join(g.id for g in found)} equally" if found else "fits no GPU of gpus.csv"
        return Identification(None, name, basis, cores, f"{why}; {said}")
    return _inferred(found[0], name)


def _inferred(gpu: Gpu, name: str | None) -> Identification:
    major, minor = gpu.compute_capability
    reason = f"compute capability {major}.{minor}, {gpu.sm} SMs, memory and bandwidth fit only {gpu.id}"
    return Identification(gpu, name or gpu.name, "inferred", "yes" if gpu.tensor_cores else "no", reason)
