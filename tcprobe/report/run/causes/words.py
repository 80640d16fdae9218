"""The words for causes of time and for the parts of a step's bar. No code parses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tcprobe.report import formatting as f
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.kinds import CauseGroup, CauseKind

GROUP_WORDS: Final[Mapping[CauseGroup, str]] = {
    "well": "Tensor Cores, used well",
    "slowly": "Tensor Cores, used slowly",
    "used": "Tensor Cores, how well is unknown",
    "off": "capable ops, off Tensor Cores",
    "layout": "changes of layout or type",
    "never": "ops without a Tensor Core kernel",
    "unknown": "not known",
    "copy": "copies and sets alone",
    "idle": "nothing runs",
}
MARKS: Final[Mapping[CauseGroup, str]] = {
    "well": "#", "slowly": "+", "used": "=", "off": "!", "layout": "~", "never": "-", "unknown": "?", "copy": "c",
    "idle": ".",
}  # fmt: skip
"""One character of the bar for each part."""
CAUSE_WORDS: Final[Mapping[CauseKind, str]] = {
    "none": "shapes, dtype or GPU are not all known",
    "not_nvidia": "not an NVIDIA GPU",
    "gpu": "the GPU has none",
    "gpu_unknown": "the GPU is not known",
    "type": "their types have none",
    "type_unknown": "the op may hold ops of any kind",
    "dtype": "a dtype that the GPU's Tensor Cores do not take",
    "dtype_missing": "the dtype is not recorded",
    "dtype_unknown": "whether Tensor Cores take the dtype is not known",
    "tf32": "float32 without TF32",
    "tf32_unknown": "whether TF32 was allowed is not recorded",
    "shape": "misaligned, and the library chose another kernel",
    "shape_required": "misaligned, and the dtype has no such kernel",
    "library": "the library chose another kernel",
    "kernels_unknown": "whether the kernels use them is not known",
    "tc_well": "half of the GPU's peak or more",
    "tc_misaligned": "misaligned: no multiple of 16 bytes",
    "tc_tiles": "tiles, or the last wave of them, partly empty",
    "tc_small": "too small to fill the GPU",
    "tc_memory": "bound by memory",
    "tc_slow": "slower than its sizes explain",
    "channels": "too few channels, or too many groups",
    "layout": "within ops that could use Tensor Cores",
    "op_unknown": "kernels of no op that is named",
    "other_step": "kernels of steps that do not count",
    "copy": "",
    "idle": "",
}
"""Each cause beside the part of the bar that it is in."""
_OF_CHANNELS: Final = {
    "filters": ("1 output channel", "{} output channels"),
    "channels": ("1 input channel", "{} input channels"),
    "groups": ("1 group", "{} groups"),
}


def _channels(row: Row) -> str:
    one, many = _OF_CHANNELS.get(str(row["cause_dimension"]), ("1 channel", "{} channels"))
    size = row["cause_size"]
    what = "few channels" if size is None else one if size == 1 else many.format(f.count(size))
    return f"{what}: {row['cause_kernel'] or 'its kernel'} runs on CUDA cores"


def _misaligned(row: Row) -> str:
    size, dimension = row["cause_size"], row["cause_dimension"]
    return (
        f"slowed: {dimension} {f.count(size)} is no multiple of 16 bytes"
        if size is not None
        else CAUSE_WORDS["tc_misaligned"]
    )


def _tiles(row: Row) -> str:
    waves = row["waves"]
    if row["tile"] is None or waves is None:
        return CAUSE_WORDS["tc_tiles"]
    return f"slowed: tiles of {row['tile']}, {f.full_number(float(waves), 2)} waves, partly empty"


_WORDED: Final[Mapping[str, Callable[[Row], str]]] = {
    "channels": _channels,
    "tc_misaligned": _misaligned,
    "tc_tiles": _tiles,
    "tc_small": lambda _: "slowed: too small to fill the GPU",
    "tc_memory": lambda _: "slowed: bound by memory",
    "tc_slow": lambda _: "slow, and its sizes do not explain it",
    "tc_well": lambda _: "used well",
    "none": lambda _: "used; how well is unknown",
    "layout": lambda _: "changes of layout or type",
    "type": lambda _: "no Tensor Core kernel",
    "shape": lambda row: f"misaligned, and the library ran {row['cause_kernel'] or 'another kernel'}",
    "library": lambda row: f"the library ran {row['cause_kernel'] or 'another kernel'}",
}


def cause_of_op(row: Row) -> str:
    """Return the cause of an op's time, from its row of `ops`."""
    cause = row["cause"]
    if cause is None:
        return f.NA
    worded = _WORDED.get(str(cause))
    return CAUSE_WORDS[cause] if worded is None else worded(row)  # type: ignore[index]


def cause_label(cause: Value) -> str:
    """Return a cause in a few words, where nothing else of its op is known."""
    return f.NA if cause is None else CAUSE_WORDS.get(cause) or f.NA  # type: ignore[call-overload]
