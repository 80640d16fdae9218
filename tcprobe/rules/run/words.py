"""How the users of each framework choose a precision, in words that several rules share."""

from __future__ import annotations

from typing import Final, Literal

Framework = Literal["tensorflow", "pytorch", "jax"]
FRAMEWORKS: Final[dict[Framework, str]] = {"tensorflow": "TensorFlow", "pytorch": "PyTorch", "jax": "JAX"}
"""How each is spelled."""


def framework_of(name: str | None) -> Framework | None:
    """Return the framework of a name with version (``tensorflow 2.21.0``); None if it is another or unknown."""
    known = (name or "").lower()
    return next((f for f in FRAMEWORKS if known.startswith(f)), None)


KERAS: Final = "tf.keras.mixed_precision, or tcprobe profile --precision"
HALF: Final[dict[str | None, str]] = {
    None: "mixed precision in float16",
    "tensorflow": f"mixed_float16 ({KERAS})",
    "pytorch": "mixed precision in float16 (torch.autocast with dtype=torch.float16)",
}
"""Mixed precision in float16."""
MIXED: Final[dict[str | None, str]] = {
    None: "mixed precision",
    "tensorflow": f"mixed_bfloat16 or mixed_float16 ({KERAS})",
    "pytorch": "mixed precision (torch.autocast)",
}
"""Mixed precision in bfloat16 or float16."""
TF32: Final[dict[str | None, str]] = {
    None: "TF32 (unset NVIDIA_TF32_OVERRIDE)",
    "tensorflow": "TF32 (unset NVIDIA_TF32_OVERRIDE, enable_tensor_float_32_execution(True))",
    "pytorch": "TF32 (unset NVIDIA_TF32_OVERRIDE, torch.set_float32_matmul_precision('high'))",
}


def said(ways: dict[str | None, str], framework: str | None) -> str:
    """Return the words for a framework, else those for any."""
    return ways.get(framework, ways[None])


MAY_LEAVE: Final = "cuDNN may run the weight gradient on a CUDA-core kernel"  # of few filters in 16 bits


def output_channels(count: int) -> str:
    """Return ``1 output channel``, ``3 output channels``."""
    return f"{count} output channel{'s' * (count > 1)}"


def kept(count: int) -> str:
    """Return which of eight filters are kept: ``the first``, ``the first 3``."""
    return f"the first{f' {count}' if count > 1 else ''}"
