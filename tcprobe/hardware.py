"""The GPUs of ``gpus.csv``: their Tensor Cores, peak rates and names.

Each row of the file is a GPU with its source. `evidence` is verified where NVIDIA's tables, what a driver reported or
two independent tables give its figures; formula where one table gives SMs, clock and memory, or two disagree. Peaks
that no table gives follow from SMs x FMA per clock and SM x 2 x clock.
Peaks are dense and, for Tensor Cores, accumulate in float32, as frameworks do (GeForce cards then run at half the
rate that is advertised for accumulation in float16).
"""

from __future__ import annotations

import csv
import pkgutil
import re
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.errors import UsageError

Capability = tuple[int, int]
HasTensorCores = Literal["yes", "no", "unknown"]
Board = Literal["sxm", "pcie", "nvl", "superchip", "mobile", "soc"]

DEFAULT_TARGET: Final = "a100-sxm-40"  # a run without a GPU is judged for this one
LONGEST_NAME: Final = 256  # of a GPU, in characters; the longest known has 49. What follows is not compared
FIRST_WITH_TENSOR_CORES: Final = (7, 0)
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


class Gpu(Struct, frozen=True, dict=True):
    """One GPU model."""

    id: str  # short name, for `--target-gpu` (``a100-sxm-40``)
    name: str  # marketing name
    aliases: tuple[str, ...]  # other names that drivers report, without the brand
    arch: str  # generation in lower case (turing)
    chip: str  # name of the die (TU104)
    # what carries the chip: an SXM module, a PCIe card, one of two cards that NVLink bridges (nvl), a module with a
    # Grace CPU (superchip), a laptop's mainboard (mobile), or the chip of the CPU itself (soc); None where several fit
    board: Board | None
    compute_capability: Capability  # major, minor
    tensor_cores: bool  # whether it has any
    sm: int  # number of streaming multiprocessors
    boost_mhz: int  # boost clock, to which the peaks belong
    # lowest and highest clock that drivers give as the highest, over all that is sold under the name: a laptop's power
    # limit and a Jetson's power mode change it
    clocks_mhz: tuple[int, int]
    l2_bytes: int  # size of the second-level cache
    memory_bytes: int  # nominal device memory
    memory_variants: tuple[int, ...]  # all nominal sizes that this model was sold with, in bytes
    bandwidth_bytes_per_s: float  # peak memory bandwidth
    bandwidth_variants: tuple[float, ...]  # all peak bandwidths that this model was sold with
    peaks: dict[str, float]  # dtype -> dense peak in FLOP/s (OP/s for int8), if known
    evidence: str  # how the figures were checked
    source: str  # where the figures come from

    def __hash__(self) -> int:
        return hash(self.id)

    def peak_flop_per_s(self, dtype: str) -> float | None:
        """Return the dense peak for operands of `dtype`; None if the file has no figure.

        float32 is the CUDA cores' rate; tf32 is float32 data on Tensor Cores.
        """
        return self.peaks.get(dtype.lower())


def _gpu(row: dict[str, str]) -> Gpu:
    major, _, minor = row["cc"].partition(".")
    sizes = [float(s) for s in (row["mem_gb_variants"] or row["mem_gb"]).split(";")]
    bandwidths = [float(s) for s in (row["mem_bw_gbs_variants"] or row["mem_bw_gbs"]).split(";")]
    boost = int(row["boost_mhz"])
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
        boost_mhz=boost,
        clocks_mhz=(int(row["clock_mhz_low"] or boost), int(row["clock_mhz_high"] or boost)),
        l2_bytes=int(float(row["l2_mb"]) * 2**20),
        memory_bytes=int(float(row["mem_gb"]) * GIB),
        memory_variants=tuple(int(s * GIB) for s in sizes),
        bandwidth_bytes_per_s=float(row["mem_bw_gbs"]) * 1e9,
        bandwidth_variants=tuple(b * 1e9 for b in bandwidths),
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
    name = re.sub(r"\([^()]*\)", " ", name[:LONGEST_NAME].lower())
    name = re.sub(r"\b(?:nvidia|tesla|geforce|quadro)\b", " ", name)
    return re.sub(r"[^a-z0-9]+", "", name)


@lru_cache(maxsize=1)
def _by_name() -> dict[str, tuple[Gpu, ...]]:
    found: dict[str, dict[str, Gpu]] = {}
    for gpu in load_gpus():
        for name in (gpu.id, gpu.name, *gpu.aliases):
            found.setdefault(_normal(name), {})[gpu.id] = gpu
    return {name: tuple(gpus.values()) for name, gpus in found.items()}


def gpus_named(name: str) -> tuple[Gpu, ...]:
    """Return every GPU with this id, marketing name or driver's name: a desktop's and a laptop's may share one."""
    return _by_name().get(_normal(name), ())


def lookup_gpu(name: str) -> Gpu | None:
    """Return the GPU with this id, marketing name or driver's name, or the part of a GPU that the name describes.

    Of several with one name it is the one whose marketing name it is, a desktop card before a laptop's.
    None if the file lacks it, if several share the name, or if the size of the part is unknown.
    """
    found, wanted = gpus_named(name), _normal(name)
    if len(found) == 1:
        return found[0]
    own = next((gpu for gpu in found if wanted in (_normal(gpu.id), _normal(gpu.name))), None)
    part = None if found else partition_of(name)
    return part.cut(None) if part else own


def find_gpu(name: str) -> Gpu:
    """Return the GPU with this id, marketing name or driver's name.

    Raises:
        UsageError: no GPU has this name; the message offers the nearest ids.
    """
    if found := lookup_gpu(name):
        return found
    if shared := gpus_named(name):
        raise UsageError(f"{name!r} is the name of several GPUs", f"name one: {', '.join(g.id for g in shared)}")
    if part := partition_of(name):
        raise UsageError(f"how many SMs {name!r} has is not known", f"predict for all of it: {part.whole.id}")
    wanted = _normal(name)
    begun = [wanted, *(wanted[:-left] for left in (1, 2) if len(wanted) - left > 2)] if wanted else []
    starting = [known for start in begun for known in _by_name() if known.startswith(start)]  # h1000: h100
    close = [*starting, *get_close_matches(wanted, _by_name(), n=5, cutoff=0.5)]
    near = list(dict.fromkeys(gpu.id for known in close for gpu in _by_name()[known]))[:5]
    hint = f"did you mean {', '.join(near)}?" if near else "tcprobe explain gpus lists the known ones"
    raise UsageError(f"no GPU called {name[:LONGEST_NAME]!r} in gpus.csv", hint)


def spoken_name(name: str) -> str:
    """Return a GPU's name in a sentence, with its article, without brand and remarks: ``a T4``."""
    short = re.sub(r" ?\([^()]*\)", "", name).removeprefix("Tesla ").removeprefix("GeForce ")
    return f"{'an' if short[:1] in 'AEFHILMNORSX' else 'a'} {short}"


# A GPU instance of MIG (NVIDIA Multi-Instance GPU user guide, MIG device names): its compute slices, or those of the
# compute instance in it, and its memory.
_MIG: Final = re.compile(r"(.*?[^\s-])[\s-]++MIG[\s-]++(?:(\d)c\.)?(\d)g\.(\d{1,4})gb(?:[+.]\w++)*+", re.IGNORECASE)
# A virtual GPU (NVIDIA vGPU user guide, virtual GPU types): GRID A100D-40C shares the SMs in time, A100D-1-10C is a
# MIG instance.
_VGPU: Final = re.compile(r"(?:GRID|NVIDIA)\s++(.+?)-(?:(\d)-)?(\d{1,4})[ABCQ]\d?(?:ME)?", re.IGNORECASE)
# Boards that virtual GPUs are named after where a name stands for several boards: X is a module, D the larger memory.
_VGPU_BOARDS: Final = {
    "v100": "v100-pcie",
    "v100d": "v100-pcie",
    "v100x": "v100-sxm2",
    "v100dx": "v100-sxm2",
    "v100l": "v100-fhhl",
    "v100s": "v100s-pcie",
    "a100": "a100-pcie-40",
    "a100d": "a100-pcie-80",
    "a100x": "a100-sxm-40",
    "a100dx": "a100-sxm-80",
    "a800dx": "a100-sxm-80",
    "h100": "h100-pcie",
    "h100xm": "h100-sxm",
    "h800xm": "h100-sxm",
    "h200x": "h200-sxm",
    "rtx6000": "quadro-rtx6000-8000",
    "rtx6000p": "quadro-rtx6000-8000",
    "rtx8000": "quadro-rtx6000-8000",
    "rtx8000p": "quadro-rtx6000-8000",
}
SMS_OF_A_SLICE: Final = {"GA100": 14}
"""SMs of one compute slice by chip: A100 MIG 7g has 98, A30 MIG 4g has 56. Others are not multiples of one number."""
_MEMORY_SLICES: Final = 8  # of an A100 or H100; an A30's four are two each


class Partition(Struct, frozen=True):
    """A part of a GPU, as a name describes it."""

    whole: Gpu  # the GPU that is divided
    label: str  # what the name says of the part, ``MIG 3g.40gb``; empty if all SMs are shared in time
    slices: int | None  # compute slices of a MIG instance; None if all SMs are shared in time
    memory_bytes: int  # its memory

    def cut(self, sm_count: int | None) -> Gpu | None:
        """Return the part as a GPU of its own, with its share of peaks, bandwidth and cache.

        Args:
            sm_count: SMs of the part; None if the source does not say. Then its slices tell, where the chip allows.
        """
        whole = self.whole
        if self.slices is None:
            return replace(whole, memory_bytes=self.memory_bytes, memory_variants=(self.memory_bytes,))
        size = SMS_OF_A_SLICE.get(whole.chip)
        sms = sm_count or (self.slices * size if size else None)
        if sms is None or sms > whole.sm:
            return None
        share = min(1.0, max(1, round(_MEMORY_SLICES * self.memory_bytes / whole.memory_bytes)) / _MEMORY_SLICES)
        return replace(
            whole,
            id=f"{whole.id}-{self.label.lower().replace(' ', '-')}",
            name=f"{whole.name} {self.label}",
            aliases=(),
            sm=sms,
            l2_bytes=int(whole.l2_bytes * share),
            memory_bytes=self.memory_bytes,
            memory_variants=(self.memory_bytes,),
            bandwidth_bytes_per_s=whole.bandwidth_bytes_per_s * share,
            bandwidth_variants=tuple(b * share for b in whole.bandwidth_variants),
            peaks={dtype: peak * sms / whole.sm for dtype, peak in whole.peaks.items()},
        )


def partition_of(name: str) -> Partition | None:
    """Return the part of a GPU that a name describes: a MIG instance or a virtual GPU; None if it describes neither."""
    if found := _MIG.fullmatch(name := name[:LONGEST_NAME].strip()):
        board, compute, slices, memory = found.groups()
        whole = lookup_gpu(board)
        label = f"MIG {compute + 'c.' if compute else ''}{slices}g.{memory}gb"
        return Partition(whole, label, int(compute or slices), int(memory) * GIB) if whole else None
    if found := _VGPU.fullmatch(name):
        board, slices, memory = found.groups()
        whole = lookup_gpu(_VGPU_BOARDS.get(_normal(board), board))
        label = f"MIG {slices}g.{memory}gb" if slices else ""
        return Partition(whole, label, int(slices) if slices else None, int(memory) * GIB) if whole else None
    return None
