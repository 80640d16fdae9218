"""`Constants` of the cost model for one GPU: rates, slowdowns of unaligned sizes, past errors; and its files.

The constants that tcprobe ships, by GPU and stack, and which of them stand in for what was not measured.

``rates.json`` holds them: a calibration file per GPU and stack, with the source of its measurements and how many
products were fitted. `bench/fit.py` prints them; `bench/cost_model.py` tests on other products. docs/cost-model.md
gives the results.
"""

from __future__ import annotations

import json
import os
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct, convert, field
from msgspec.structs import replace

from tcprobe.errors import MissingInput, UnreadableInput, UnsupportedVersion, WrongFormat
from tcprobe.foreign import read_text
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.jsonfile import parse
from tcprobe.schema.provenance import UNKNOWN_STACK, Provenance, Stack
from tcprobe.schema.records import as_dict

Basis = Literal["predicted", "calibrated"]
RateFamily = Literal["tc16", "tf32", "fp32", "fp8", "int8"]
MOST: Final = 1e300  # of any figure: past it ratios are none
Positive: TypeAlias = Annotated[float, Meta(ge=1e-6, le=MOST)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0, le=MOST)]
FromOne: TypeAlias = Annotated[float, Meta(ge=1, le=MOST)]
TileSize: TypeAlias = Annotated[int, Meta(ge=1)]
TimeFactors: TypeAlias = tuple[Positive, Positive, Positive]
BYTES: Final[dict[RateFamily, int]] = {"tc16": 2, "tf32": 4, "fp32": 4, "fp8": 1, "int8": 1}
"""Of an element of each family in memory."""
FAMILIES: Final = tuple(BYTES)
FORMAT: Final = "tcprobe-calibration"
VERSION: Final = 1
MOST_BYTES: Final = 4 << 20  # of a calibration file, which takes some kB
KERNEL_NS: Final = 2500.0
"""What an empty kernel takes by itself: fits to serving stacks, which hide the launches, give 1.5-2.5 us in 16 bits."""


class Rate(Struct, frozen=True):
    """How fast one GPU multiplies operands of one dtype family."""

    emax: Positive  # share of the dense peak that the best tile reaches, 0-1
    bwf: Positive  # share of the peak memory bandwidth that a large product reaches, 0-1
    t0_ns: NotNegative  # time of an empty kernel: part of every kernel's time
    split_ns: NotNegative  # extra time if the contraction is split over thread blocks and summed up afterwards
    fill_k: NotNegative  # contraction length that takes as long as filling the pipeline of one tile
    l2_speed: FromOne  # how many times faster operands come from the second-level cache than from memory, 1 or more
    l2_share: Positive  # share of that cache that a product can use, 0-1
    # share of the idle SMs in the last, partial wave that costs time, 0-1; kernels that split the contraction or
    # overlap waves hide the rest
    quantised: NotNegative
    # exponent that combines compute and memory time; the larger, the closer the result is to their maximum
    sharp: FromOne
    # (rows, columns, efficiency relative to the best) of the tiles that libraries choose from
    tiles: Annotated[tuple[tuple[TileSize, TileSize, Positive], ...], Meta(min_length=1)]
    # 10th, 50th and 90th percentile of measured over predicted time; `low` and `high` come from it
    spread: TimeFactors
    # what launching it adds as the stack times it: time of a step, in which the GPU waits, but not of the kernel. 0
    # where the stack hides it or the measurements do not tell it from `t0_ns`.
    launch_ns: NotNegative = 0.0
    # elements of the contraction per round of a kernel's main loop: 128 bytes of a 16-bit type, 8 of float32 on CUDA
    # cores (CUTLASS, "Efficient GEMM in CUDA")
    step_k: TileSize = 64
    # contraction, with the filling, below which a tile of a batched product takes no less: its start and its writing
    batched_k: NotNegative = 0.0

    def __post_init__(self) -> None:
        """Refuse a spread that is none; so do other records for theirs."""
        _in_order(*self.spread)


class Multiplier(Struct, frozen=True):
    """Rate of an unaligned product relative to an aligned one, 0-1: slowest, likely, fastest."""

    low: Positive
    mid: Positive
    high: Positive

    def __post_init__(self) -> None:
        _in_order(self.low, self.mid, self.high)


class Constants(Struct, frozen=True):
    """The cost model's constants for one GPU, as one stack runs it."""

    gpu: str  # id of the GPU that was measured, which names its board (SXM, PCIe, NVL) too
    source: str  # where the measurements come from
    basis: Basis  # predicted (shipped with tcprobe) or calibrated (measured on the user's own GPU)
    # by dtype family; a family that was not measured is absent
    rates: Annotated[Mapping[RateFamily, Rate], Meta(min_length=1)]
    # measured time of a convolution over its time as a plain product: 10th percentile, median, 90th; by family and
    # `tcprobe.cost.works.Task.classes` (``tc16:wgrad``); absent if not measured
    conv: Mapping[str, TimeFactors] = field(default_factory=dict)
    # by product and alignment (``gemm:tc16:nt_odd``, ``conv:tc16:wgrad:even``); absent if not measured
    multipliers: Mapping[str, Multiplier] = field(default_factory=dict)
    stack: Stack = UNKNOWN_STACK  # what timed them; of an unknown kind in files written before it was stored

    def __post_init__(self) -> None:
        for spread in self.conv.values():
            _in_order(*spread)

    def to_json(self) -> str:
        """Return the constants as the text of a calibration file."""
        body = {"format": FORMAT, "version": VERSION, **as_dict(self)}
        return json.dumps(body, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, path: Path | str = "constants") -> Constants:
        """Read the constants from the text of a calibration file.

        Raises:
            WrongFormat: it is no calibration file, or a figure is missing or out of range.
            UnsupportedVersion: a later tcprobe wrote it.
        """
        try:
            body = parse(text)
        except ValueError as error:
            raise WrongFormat(path, f"not JSON: {error}", _AGAIN) from None
        return cls.from_body(body, path)

    @classmethod
    def from_body(cls, body: object, path: Path | str = "constants") -> Constants:
        """Read the constants from a decoded calibration file; other entries are ignored.

        Raises:
            WrongFormat, UnsupportedVersion: as in `from_json`.
        """
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise WrongFormat(path, "not a calibration file of tcprobe", _AGAIN)
        if body.get("version") != VERSION:
            raise UnsupportedVersion(path, f"version {body.get('version')} of a calibration file", _AGAIN)
        try:
            return _constants(body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WrongFormat(path, f"damaged calibration file: {error}", _AGAIN) from None


_AGAIN: Final = "measure again with `tcprobe calibrate`, or remove the file"


def launch_apart(t0_ns: float) -> tuple[float, float]:
    """Return what an empty kernel itself takes of a time that holds its launch, and the launch."""
    kernel_ns = min(t0_ns, KERNEL_NS)
    return kernel_ns, t0_ns - kernel_ns


def calibration_folder() -> Path | None:
    """Return the folder of calibration files: in $XDG_CONFIG_HOME if set, else in ~/.config; None without a home."""
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        return (Path(base) if base else Path.home() / ".config") / "tcprobe" / "calibration"
    except RuntimeError:  # a user without an entry in the system's list, as in many containers
        return None


def load_constants(gpu: Gpu, folder: Path | None = None) -> Constants | None:
    """Return what `tcprobe calibrate` measured on this GPU; None if it has not been run.

    Args:
        gpu: the GPU whose file ``<folder>/<gpu id>.json`` is read.
        folder: defaults to `calibration_folder()`.

    Raises:
        InputError: the file is damaged, belongs to another GPU, or cannot be read.
    """
    folder = folder or calibration_folder()
    if folder is None:
        return None
    path = folder / f"{gpu.id}.json"
    try:
        text = read_text(path, MOST_BYTES)
    except MissingInput:
        return None
    except UnreadableInput:
        if not os.access(f"{folder}/.", os.X_OK):  # none, or in another user's home, as after sudo
            return None
        raise
    except UnicodeDecodeError:
        raise WrongFormat(path, "not a text file", _AGAIN) from None
    constants = Constants.from_json(text, path)
    if constants.gpu != gpu.id:
        raise WrongFormat(path, f"measured on {constants.gpu}, not on {gpu.id}", _AGAIN)
    return constants


_RENAMED: Final = {"gemm:tc16:output": "gemm:tc16:nt_odd"}
"""Older files name the class by what was measured of it: the layout NT, only the result's rows odd."""


def _constants(body: Mapping[str, Any]) -> Constants:
    for rate in body["rates"].values():
        if "launch_ns" not in rate:  # a file from before the two were told apart
            rate["t0_ns"], rate["launch_ns"] = launch_apart(rate["t0_ns"])
    multipliers = {_RENAMED.get(key, key): value for key, value in body["multipliers"].items()}
    return convert({**body, "multipliers": multipliers}, Constants)


def _in_order(*figures: float) -> None:
    if list(figures) != sorted(figures):
        raise ValueError("figures out of order")


RunsThrough = Literal["framework", "serving"]
"""What runs the products: a framework (TensorFlow, PyTorch, JAX), or a serving stack."""
FRAMEWORK_FROM: Final = "a100-sxm-80"
"""The GPU measured through both, whose launch and efficiency stand in for other GPUs' frameworks."""
INFERRED: Final = 1.1
"""Widens the range where a framework's constants are inferred in that way.

Inferred so from an H100 SXM and an A100, an H100 with HBM2e comes out 9.2 % off (8.6 % fitted), and 93 % of its
products lie within the range, which is 1.8 times wide (`python bench/fit.py framework`).
"""
OTHER_VERSION: Final = 1.05
"""Widens the range of a stack or framework for its other versions, and for other stacks: a judgement.

Without it, 58-86 % of the products of other serving stacks in bfloat16 lay in the range, median 78 (`python
bench/cost_model.py --others`), and 69-77 % of a framework's own, which the fit did not see.
"""
SAME_CHIP: Final = 1.1  # widens the range for another board with the same chip; a judgement, not a measurement
RELATIVE: Final = 1.3  # for another chip of the generation, or another dtype family: likewise a judgement
CONV_FROM: Final = "v100-sxm2"
"""The GPU whose measured convolutions stand in for GPUs without any."""


BATCHED_K: Final = 96.0
"""Contraction below which batched products in float32 take no less time, filling included.

On an A100 a wave of `ampere_sgemm_128x128` takes 24-25 us whether K is 5 or 64, as long as arithmetic does with a K of
120. Of half of NeuSight's batched products 64 (T4) to 120 (A100, P100) fit best; an H100 shows none at a K of 64, the
least that was timed there.
"""


class _Float32(NamedTuple):
    """Products in float32 on CUDA cores through PyTorch: measured time over what DeepBench's constants predict."""

    slower: float  # the median of plain products, to which the rate of arithmetic is set
    plain: tuple[float, float]  # their 10th and 90th percentile over that
    batched: TimeFactors  # of batched products over that: 10th percentile, median, 90th


# Printed by `bench/fit.py float32`: half of NeuSight's timings of PyTorch 2.1, cuBLAS 12.1, above 0.1 ms. Power limits
# L4 (72 W: 9 of 30 TFLOP/s), P4 and T4; on Pascal cuBLAS 12 takes 64x64 and 32x128 tiles alone.
_FLOAT32: Final[Mapping[str, _Float32]] = {
    "a100-pcie-40": _Float32(1.08, (0.81, 1.30), (0.74, 1.04, 2.15)),
    "a100-pcie-80": _Float32(1.00, (0.93, 1.20), (0.79, 0.96, 1.42)),
    "h100-sxm": _Float32(1.22, (0.94, 1.36), (0.88, 1.00, 1.29)),
    "l4": _Float32(2.98, (0.87, 1.16), (0.81, 1.20, 1.64)),
    "p100": _Float32(1.47, (0.82, 2.32), (0.58, 0.78, 1.15)),
    "p4": _Float32(2.59, (0.53, 2.39), (0.43, 0.60, 0.87)),
    "t4": _Float32(1.26, (0.73, 1.34), (0.50, 0.78, 1.19)),
    "v100-pcie": _Float32(0.99, (0.86, 1.35), (0.68, 0.95, 1.32)),
}
_TIMED_IN_FLOAT32: Final = (
    ((9, 0), "h100-sxm"), ((8, 0), "a100-pcie-80"), ((7, 5), "t4"), ((7, 0), "v100-pcie"), ((0, 0), "p100"),
)  # fmt: skip


class Fitted(Struct, frozen=True):
    """The constants for one GPU and dtype family, its own or those of a similar GPU."""

    rate: Rate  # rate of the family; its spread is widened for what is borrowed
    conv: Mapping[str, TimeFactors]  # measured over predicted time of a convolution by pass, widened in the same way
    provenance: Provenance  # whose constants `rate` is
    batched: TimeFactors | None = None  # measured over predicted time of batched products; None: as of others


@cache
def shipped(through: RunsThrough = "serving") -> Mapping[str, Constants]:
    """Return the constants measured through a framework, or through a serving stack or a benchmark, by GPU id."""
    body = json.loads(pkgutil.get_data("tcprobe.cost", "rates.json") or b"")
    found = [Constants.from_body(gpu, "rates.json") for gpu in body["gpus"]]
    return {own.gpu: own for own in found if (own.stack.kind == "framework") == (through == "framework")}


@lru_cache(maxsize=512)
def fitted(gpu: Gpu, family: RateFamily, through: RunsThrough = "framework") -> Fitted:
    """Return the shipped constants nearest to a GPU, a dtype family and what runs the products.

    If the family was not measured on this GPU, the nearest relative stands in: a GPU of the same generation, else the
    one with the most similar SMs; 16-bit constants stand in for TF32 and 1-byte types, V100's for float32. If no
    framework was timed on it, what `FRAMEWORK_FROM` loses through one is put on the constants of its serving stack.
    """
    own = _through_framework(gpu, family) if through == "framework" else None
    rate, provenance = own or inferred(gpu, family, through)
    conv, batched = _conv(gpu, family, provenance), None
    if family == "fp32" and through == "framework":
        owner = gpu.id if gpu.id in _FLOAT32 else since(gpu, _TIMED_IN_FLOAT32)
        slower, (low, high), batched = _FLOAT32[owner]
        factor = wider(gpu, owner) * OTHER_VERSION
        rate = replace(rate, emax=rate.emax / slower, spread=widened((low, 1.0, high), factor))
        batched = widened(batched, factor)
        if gpu.compute_capability < (8, 0):  # these GPUs' own convolutions were timed beside the plain product
            conv = {name: (a / slower, b / slower, c / slower) for name, (a, b, c) in conv.items()}
    return Fitted(rate, conv, provenance, batched)


def inferred(gpu: Gpu, family: RateFamily, through: RunsThrough = "framework") -> tuple[Rate, Provenance]:
    """Return the constants of a GPU as if no framework had been timed on it, and whose they are."""
    rate, provenance = _through_serving(gpu, family)
    if through == "framework":
        return _as_through_framework(rate, provenance, family)
    if provenance.stack.kind == "serving":  # one whose products are PyTorch's loses what that does
        low, likely, high = rate.spread
        rates = (shipped(kind)[FRAMEWORK_FROM].rates["tc16"].emax for kind in ("serving", "framework"))
        rate = replace(rate, spread=(low, likely, high * next(rates) / next(rates)))
    return rate, provenance


def _through_framework(gpu: Gpu, family: RateFamily) -> tuple[Rate, Provenance] | None:
    owner = gpu.id if gpu.id in shipped("framework") else _relative(gpu)
    known = shipped("framework").get(owner)
    measured: RateFamily = "tc16" if family == "tf32" and known and "tf32" not in known.rates else family
    if known is None or measured not in known.rates:
        return None
    rate, provenance = _lent(gpu, known, measured, family)
    low, _, high = known.rates.get("tc16", rate).spread
    spread = min(low, rate.spread[0]), rate.spread[1], max(high, rate.spread[2])  # few TF32 products were timed
    return replace(rate, spread=widened(spread, OTHER_VERSION)), provenance


def _through_serving(gpu: Gpu, family: RateFamily) -> tuple[Rate, Provenance]:
    owner, measured = _nearest(gpu, family)
    rate, provenance = _lent(gpu, shipped()[owner], measured, family)
    known = shipped()[_relative(gpu)].rates.get("tc16")
    if known is not None and owner != _relative(gpu):  # the memory and an empty kernel are the chip's, not the dtype's
        rate = replace(rate, bwf=known.bwf, t0_ns=known.t0_ns)
    if family == "fp32":
        rate = replace(rate, batched_k=64.0 if gpu.compute_capability >= (9, 0) else BATCHED_K)
    if provenance.stack.kind == "serving":
        rate = replace(rate, spread=widened(rate.spread, OTHER_VERSION))
    return rate, provenance


def _lent(gpu: Gpu, known: Constants, measured: RateFamily, family: RateFamily) -> tuple[Rate, Provenance]:
    """Return constants as they stand in for a GPU and a family, with a range as wide as that asks for."""
    factor = wider(gpu, known.gpu) if measured == family else RELATIVE
    rate = known.rates[measured]
    dtype = None if measured == family else measured
    provenance = Provenance(gpu.id, known.gpu, known.stack, dtype, widened=factor)
    return replace(rate, spread=widened(rate.spread, factor)), provenance


def _as_through_framework(rate: Rate, provenance: Provenance, family: RateFamily) -> tuple[Rate, Provenance]:
    """Return constants with the launch of a framework and, if a serving stack was timed, with what it loses.

    A benchmark calls the library as a framework does; what its empty kernel takes holds a launch too.
    """
    there = shipped("framework")[FRAMEWORK_FROM].rates
    slower, serving = there.get(family, there["tc16"]), shipped()[FRAMEWORK_FROM].rates["tc16"]
    if provenance.stack.kind == "serving":
        lost = ("emax", "bwf", "fill_k")
        rate = replace(rate, **{n: getattr(rate, n) * getattr(slower, n) / getattr(serving, n) for n in lost})
    rate = replace(rate, t0_ns=launch_apart(rate.t0_ns)[0]) if provenance.stack.kind == "benchmark" else rate
    rate = replace(rate, launch_ns=there["tc16"].launch_ns, spread=widened(rate.spread, INFERRED))
    return rate, replace(provenance, framework_of=FRAMEWORK_FROM, widened=provenance.widened * INFERRED)


def _conv(gpu: Gpu, family: RateFamily, provenance: Provenance) -> Mapping[str, TimeFactors]:
    kind = "fp32" if family == "fp32" else "tc16"
    owner = conv_owner(provenance.measured_on, family)
    # about 50 of each pass were fitted: their percentiles lie too close together
    factor = max(INFERRED, provenance.widened) if owner == gpu.id else RELATIVE
    measured = {key: spread for key, spread in shipped()[owner].conv.items() if key.startswith(kind)}
    return {key.partition(":")[2]: widened(spread, factor) for key, spread in measured.items()}


def conv_owner(measured_on: str, family: RateFamily) -> str:
    """Return the GPU whose convolutions go with the rates of another GPU: its own if they were measured."""
    kind = "fp32" if family == "fp32" else "tc16"
    known = shipped().get(measured_on)
    return measured_on if known and any(key.startswith(kind) for key in known.conv) else CONV_FROM


def widened(spread: TimeFactors, factor: float) -> TimeFactors:
    """Return a spread whose ends are moved apart by a factor of 1 or more each."""
    low, mid, high = spread
    return low / factor, mid, high * factor


def _nearest(gpu: Gpu, family: RateFamily) -> tuple[str, RateFamily]:
    relative = _relative(gpu)
    rates = shipped()[relative].rates
    if family in rates:
        return relative, family
    if family == "fp32":
        return "v100-sxm2", "fp32"
    if family == "int8" and "fp8" in rates:
        return relative, "fp8"
    return (relative, "tc16") if "tc16" in rates else ("v100-sxm2", "tc16")


_RELATIVES: Final = (
    ((12, 0), "rtxpro6000bw-server"), ((10, 0), "b200"), ((9, 0), "h200-sxm"), ((8, 9), "l40s"),
    ((8, 0), "a100-sxm-80"), ((7, 5), "t4"), ((7, 0), "v100-sxm2"), ((0, 0), "p100"),
)  # fmt: skip


def _relative(gpu: Gpu) -> str:
    if gpu.id in shipped():
        return gpu.id
    return "h100-sxm" if gpu.id.startswith("h100") else since(gpu, _RELATIVES)


def since(gpu: Gpu, owners: Sequence[tuple[tuple[int, int], str]]) -> str:
    """Return the first GPU of a list of which this one has the least compute capability."""
    return next(owner for least, owner in owners if gpu.compute_capability >= least)


def wider(gpu: Gpu, owner: str) -> float:
    """Return the factor that widens a range where the constants of `owner` stand in for a GPU; 1 for its own."""
    if gpu.id == owner:
        return 1.0
    known = find_gpu(owner)
    return SAME_CHIP if (known.compute_capability, known.sm) == (gpu.compute_capability, gpu.sm) else RELATIVE
