"""Say which GPU a profile ran on, by its name and its figures, and whether it has Tensor Cores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.hardware import (
    FIRST_WITH_TENSOR_CORES,
    Capability,
    Gpu,
    HasTensorCores,
    Partition,
    gpus_named,
    load_gpus,
    lookup_gpu,
    partition_of,
)

# Largest TU116 has 24 SMs (GTX 1660 Ti), smallest TU106 30 (RTX 2060): NVIDIA Turing architecture whitepaper.
TURING_SMS_WITHOUT_TENSOR_CORES: Final = 24
TURING_WITHOUT_TENSOR_CORES: Final = re.compile(
    r"\b(?:GTX\s*16\d\d|MX\s*(?:450|550)|T\s*(?:400E?|500|550|600|1000|1200|2000)|CMP\s*30HX)\b", re.IGNORECASE
)
# Every RTX has Tensor Cores, and every data-centre card from Volta on, whatever follows in its name (V100-DGXS-16GB).
CHIPS_WITH_TENSOR_CORES: Final = re.compile(
    r"\b(?:RTX|TITAN V|T4|V100S?|A2|A10G?|A16|A30|A40|A100X?|L4|L40S?|H20|H100|H200|GH200|G?B[23]00)\b"
)
# Their Tensor Cores are slowed down, to a rate that no table gives; the other figures are those of a card that is not.
SLOWED_DOWN: Final = re.compile(r"\b(?:CMP\s*\d+HX|RTX\s*5090\s*D)\b", re.IGNORECASE)
# A driver reports the theoretical bandwidth from memory clock and bus width; datasheets round it (GB200: 0.9 %).
BANDWIDTH_TOLERANCE: Final = 0.02
# Firmware and ECC reserve a part of the memory: a T4 reports 92 % of its 16 GiB, an Orin Nano 90 % of its 8.
MEMORY_SHARE: Final = (0.89, 1.01)
# The highest clock a driver reports exceeds the boost clock of the datasheet by up to 8 % (H100: 1980 against 1830).
CLOCK_TOLERANCE: Final = 0.12
CLOCK_TIE_BREAK: Final = 0.04
# Peaks of GPUs that count as the same: they differ by rounding, or by a clock step of 15 MHz.
SAME_PEAK: Final = 0.02
# A driver gives no true memory clock for a chip that shares the CPU's memory: 71 GB/s for a Xavier NX, which has 60.
BANDWIDTH_UNTRUE: Final = ("soc",)
# What a laptop's GPU reaches follows from its power limit, what a Jetson's from its power mode.
CLOCK_VARIES: Final = ("mobile", "soc")


class Identification(Struct, frozen=True):
    """Which GPU a profile ran on."""

    # its row, with the clock that was reported where the clock varies; the part of it that was used; what several rows
    # share if they differ in name and board alone. None if none fits or several differ.
    gpu: Gpu | None
    name: str | None  # the reported name, else the row's; None if neither is known
    basis: Literal["reported", "inferred"] | None  # reported (by name), inferred (from its figures), or None
    tensor_cores: HasTensorCores  # whether it has Tensor Cores
    reason: str  # what decided, or why it is unknown


class Figures(Struct, frozen=True):
    """What a source says of a GPU; None where it does not."""

    compute_capability: Capability | None  # major, minor
    sm: int | None  # number of streaming multiprocessors
    bandwidth: float | None  # theoretical peak memory bandwidth in bytes/s
    memory: float | None  # memory in bytes as the driver reports it, a little less than the nominal size
    clock_mhz: float | None  # highest clock

    def fit(self, gpu: Gpu) -> bool:
        """Say whether a GPU has these figures, as far as they are known."""
        low, high = gpu.clocks_mhz
        return (
            self.compute_capability in (None, gpu.compute_capability)
            and self.sm in (None, gpu.sm)
            and self._bandwidth_fits(gpu)
            and self._memory_fits(gpu)
            and self._between(low, high, CLOCK_TOLERANCE)
        )

    def clock_near(self, gpu: Gpu) -> bool:
        """Say whether the clock is nearly one that the GPU is sold with."""
        return self._between(*gpu.clocks_mhz, CLOCK_TIE_BREAK)

    def _between(self, low: float, high: float, tolerance: float) -> bool:
        return self.clock_mhz is None or low * (1 - tolerance) <= self.clock_mhz <= high * (1 + tolerance)

    def _bandwidth_fits(self, gpu: Gpu) -> bool:
        given = self.bandwidth
        if given is None or gpu.board in BANDWIDTH_UNTRUE:
            return True
        return any(abs(given / nominal - 1) <= BANDWIDTH_TOLERANCE for nominal in gpu.bandwidth_variants)

    def _memory_fits(self, gpu: Gpu) -> bool:
        low, high = MEMORY_SHARE
        return self.memory is None or any(low <= self.memory / size <= high for size in gpu.memory_variants)


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
    if compute_capability is None and name and CHIPS_WITH_TENSOR_CORES.search(name):
        return "yes", f"{name}: every GPU of that name has Tensor Cores"
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


def identify(
    compute_capability: Capability | None,
    sm_count: int | None,
    bandwidth_bytes_per_s: float | None,
    memory_bytes: float | None,
    clock_khz: float | None = None,
    name: str | None = None,
) -> Identification:
    """Say which NVIDIA GPU has these figures.

    A name in gpus.csv decides, unless the SM count contradicts it (a cut-down variant with the same name); of several
    GPUs with one name, the figures do. The name of a MIG instance or of a virtual GPU gives the part of the GPU.
    Otherwise compute capability and SM count must be equal, and bandwidth, memory and clock, if known, within the
    tolerances above; memory or bandwidth must be known. If several GPUs fit, the clock may decide between them; if it
    does not, they count as one where their figures agree, else the GPU is unknown.

    Args:
        compute_capability: major, minor.
        sm_count: number of streaming multiprocessors.
        bandwidth_bytes_per_s: theoretical peak memory bandwidth.
        memory_bytes: memory as the driver reports it, a little less than the nominal size.
        clock_khz: highest clock.
        name: name that the profile reports; None if it reports none.
    """
    clock = clock_khz / 1e3 if clock_khz else None
    known = Figures(compute_capability, sm_count, bandwidth_bytes_per_s, memory_bytes, clock)
    if name and (part := partition_of(name)) and not gpus_named(name):
        return _part(part, name, known)
    if name and (named := _named(name, known)):
        return Identification(named, name, "reported", _cores(named), f"reported as {name}")
    return _by_figures(known, name)


def _part(part: Partition, name: str, known: Figures) -> Identification:
    found = part.cut(known.sm)
    cores = _cores(part.whole)
    if found is None:
        return Identification(None, name, "reported", cores, f"{name}: a part of {part.whole.id} of unknown size")
    how = "" if part.slices else ", whose SMs it shares with others in time"
    return Identification(found, name, "reported", cores, f"{name}: a part of {part.whole.id}{how}")


def _named(name: str, known: Figures) -> Gpu | None:
    """Return the GPU of this name; of several, the only one with these figures, else the one whose own name it is."""
    sharing = [gpu for gpu in gpus_named(name) if known.sm in (None, gpu.sm)]
    if len(sharing) <= 1:
        return _as_driven(sharing[0], known) if sharing else None
    fitting = [gpu for gpu in sharing if known.fit(gpu)]
    fitting = [gpu for gpu in fitting if known.clock_near(gpu)] or fitting
    if same := _shared([_as_driven(gpu, known) for gpu in fitting]):
        return same
    own = lookup_gpu(name)
    return own if own in (fitting or sharing) else None


def _by_figures(known: Figures, name: str | None) -> Identification:
    basis: Literal["reported"] | None = "reported" if name else None
    cores, why = has_tensor_cores(known.compute_capability, name, known.sm)
    if known.compute_capability is None or known.sm is None or (known.bandwidth is None and known.memory is None):
        return Identification(None, name, basis, cores, f"{why}; too few figures to tell the model")
    if name and SLOWED_DOWN.search(name):
        return Identification(
            None, name, basis, cores, f"{why}; {name} runs its Tensor Cores slower than any table says"
        )
    found = _by_clock([gpu for gpu in load_gpus() if known.fit(gpu)], known)
    shared = _shared([_as_driven(gpu, known) for gpu in found])
    if shared is None:
        said = f"fits {' and '.join(g.id for g in found)} equally" if found else "fits no GPU of gpus.csv"
        return Identification(None, name, basis, cores, f"{why}; {said}")
    major, minor = known.compute_capability
    only = shared.id if len(found) == 1 else f"{' and '.join(g.id for g in found)}, which differ in no figure"
    reason = f"compute capability {major}.{minor}, {known.sm} SMs, memory and bandwidth fit only {only}"
    return Identification(shared, name or shared.name, "inferred", _cores(shared), reason)


def _by_clock(candidates: list[Gpu], known: Figures) -> list[Gpu]:
    """Leave out cards whose clock is further off than another's; laptops' GPUs stay, as their clock varies."""
    near = [gpu for gpu in candidates if gpu.board not in CLOCK_VARIES and known.clock_near(gpu)]
    return [gpu for gpu in candidates if gpu in near or gpu.board in CLOCK_VARIES] if near else candidates


def _shared(candidates: Sequence[Gpu]) -> Gpu | None:
    """Return what all candidates share: the first under all names if they differ in name and board alone."""
    if not candidates or not all(_same(candidates[0], other) for other in candidates):
        return None
    first = candidates[0]
    if len(candidates) == 1:
        return first
    boards = {gpu.board for gpu in candidates}
    return replace(
        first,
        name=" or ".join(gpu.name for gpu in candidates),
        board=first.board if len(boards) == 1 else None,
    )


def _same(one: Gpu, other: Gpu) -> bool:
    return (
        one.tensor_cores == other.tensor_cores
        and one.peaks.keys() == other.peaks.keys()
        and all(abs(one.peaks[dtype] / other.peaks[dtype] - 1) <= SAME_PEAK for dtype in one.peaks)
        and abs(one.bandwidth_bytes_per_s / other.bandwidth_bytes_per_s - 1) <= BANDWIDTH_TOLERANCE
    )


def _as_driven(gpu: Gpu, known: Figures) -> Gpu:
    """Return a laptop's GPU or a Jetson's with the clock and bandwidth that its driver reports; others unchanged."""
    if gpu.board not in CLOCK_VARIES or not known.clock_mhz:
        return gpu
    share = known.clock_mhz / gpu.boost_mhz
    bandwidth = gpu.bandwidth_bytes_per_s if gpu.board in BANDWIDTH_UNTRUE else known.bandwidth
    return replace(
        gpu,
        boost_mhz=round(known.clock_mhz),
        bandwidth_bytes_per_s=bandwidth or gpu.bandwidth_bytes_per_s,
        peaks={dtype: peak * share for dtype, peak in gpu.peaks.items()},
    )


def _cores(gpu: Gpu) -> HasTensorCores:
    return "yes" if gpu.tensor_cores else "no"
