"""Methods of arrays: those that functions of the same name follow, and those that leave a shape as it is."""

from __future__ import annotations

from typing import Final

from tcprobe.audit.source.arrays.functions import array_function
from tcprobe.audit.source.arrays.layout import reshaped
from tcprobe.audit.source.kinds import Arguments, Items, SourceValue, Tensor
from tcprobe.audit.source.values import dimensions

_SAME: Final = ("astype", "copy", "numpy", "clip", "round", "read_value", "value", "fillna", "block_until_ready")
_LISTS: Final = ("reshape", "transpose")
_SHAPES: Final = ("get_shape", "shape")
_FUNCTIONS: Final = (
    "sum", "mean", "max", "min", "prod", "std", "var", "any", "all", "argmax", "argmin", "squeeze", "flatten", "ravel",
    "repeat", "swapaxes", "cumsum", "take", "dot",
)  # fmt: skip


def array_method(of: Tensor, name: str, given: Arguments) -> SourceValue | None:
    """Return the result of a method of an array or tensor; None where nothing is known of it."""
    args = given.args
    if name in _SAME:
        return of
    if name in _SHAPES:
        return dimensions(of)
    if name in _LISTS and args:
        args = [args[0] if len(args) == 1 else Items(args)]
    if name == "reshape":
        return reshaped(of, args[0]) if args else None
    if name in _FUNCTIONS or name == "transpose":
        return array_function(f"numpy.{name}", Arguments([of, *args], given.keywords, given.lacking))
    return None
