"""Which sizes suit Tensor Cores: multiples of 16 bytes in the contiguous dimension, and of 8 elements."""

from __future__ import annotations

from typing import Final

ALIGN_BYTES: Final = 16  # cuBLAS 12, "Tensor Core Usage": every condition is on (contiguous size * bytes) % 16
RULE_OF_EIGHT: Final = 8  # TensorFlow's mixed precision guide: "make sure most tensor dimensions are a multiple of 8"

_BYTES: Final = {
    "float64": 8, "double": 8,
    "float32": 4, "float": 4, "tf32": 4, "int32": 4,
    "float16": 2, "half": 2, "bfloat16": 2,
    "int8": 1, "uint8": 1,
}  # fmt: skip


def bytes_of(dtype: str | None) -> int | None:
    """Return the bytes per element; None if the dtype is unknown or mixed."""
    if dtype is None:
        return None
    return 1 if dtype.startswith(("float8", "f8")) else _BYTES.get(dtype)


def multiple_for(dtype: str | None) -> int:
    """Return what a contiguous dimension should be a multiple of: 16 bytes' worth, and at least 8 elements.

    8 for types of 2 bytes or more (TF32 needs only a multiple of 4, but the size should still suit float16 when the
    precision is switched), 16 for 1-byte types.

    Source: NVIDIA, Matrix Multiplication Background User's Guide, table 1.
    """
    size = bytes_of(dtype)
    return RULE_OF_EIGHT if size is None else max(RULE_OF_EIGHT, ALIGN_BYTES // size)


def next_size(size: int, multiple: int) -> int:
    """Return `size` rounded up to a multiple of `multiple`."""
    return -(-size // multiple) * multiple


def is_aligned(size: int | None, dtype: str | None) -> bool | None:
    """Return whether `size` elements fill whole 16-byte units; None if size or dtype is unknown."""
    width = bytes_of(dtype)
    return None if size is None or width is None else size * width % ALIGN_BYTES == 0


def all_aligned(sizes: tuple[int | None, ...], dtype: str | None) -> bool | None:
    """Return whether all `sizes` are aligned: False if one is not, None if that is not known."""
    answers = [is_aligned(s, dtype) for s in sizes]
    if False in answers:
        return False
    return None if not answers or None in answers else True
