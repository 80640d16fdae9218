"""`Constants` of the cost model for one GPU: rates, slowdowns of unaligned sizes, past errors; and its files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct, convert, field

from tcprobe.errors import MissingInput, UnreadableInput, UnsupportedVersion, WrongFormat
from tcprobe.foreign import read_text
from tcprobe.hardware import Gpu
from tcprobe.jsonfile import parse
from tcprobe.schema.provenance import UNKNOWN_STACK, Stack
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
