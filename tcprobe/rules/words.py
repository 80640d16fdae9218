"""Words that the sentences of several rules share: lists, GPUs, and what advice is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from tcprobe.schema.finding import WhyKind
from tcprobe.schema.kinds import Limit

ESTIMATED: Final = "estimated"  # for convolutions: nobody has published what unaligned sizes cost them
MAY_LOSE: Final = "; change the layer: padding while it runs can cost more than it saves"
BOUND: Final[Mapping[Limit, WhyKind]] = {
    "launch": "bound_by_launch",
    "memory": "bound_by_memory",
    "compute": "as_fast_as_aligned",
}
"""Why a size costs next to nothing, by what limits its products."""
UNHURT: Final[Mapping[WhyKind, str]] = {
    "bound_by_launch": "its products are so small that their launch takes the time",
    "bound_by_memory": "its products are bound by memory, not by arithmetic",
    "as_fast_as_aligned": "predicted as fast as aligned",
}
_FORM: Final = re.compile(r"(?<!\s)\s*+(?:\(.*|\bSXM.*|\bPCIe.*|\bNVL.*|\bFE\b.*|\b\d+\s*GB.*)")
Framework = Literal["tensorflow", "pytorch", "jax"]
FRAMEWORKS: Final[dict[Framework, str]] = {"tensorflow": "TensorFlow", "pytorch": "PyTorch", "jax": "JAX"}
"""How each is spelled."""


def framework_of(name: str | None) -> Framework | None:
    """Return the framework of a name with version (``tensorflow 2.21.0``); None if it is another or unknown."""
    known = (name or "").lower()
    return next((f for f in FRAMEWORKS if known.startswith(f)), None)


Ways: TypeAlias = Mapping[str | None, tuple[str, ...]]
"""How to do something, the best way first, by framework; of those without their own under None."""
T = TypeVar("T")


class Act(NamedTuple):
    """What advice says. The first screen has the title with the ways that fit beside it, and the first reason."""

    title: str  # what to do
    ways: tuple[str, ...] = ()  # how, the best first
    why: tuple[str, ...] = ()


def way(ways: Mapping[str | None, T], framework: str | None) -> T:
    """Return what is for a framework, else what is for any."""
    return ways.get(framework, ways[None])


NAME_WIDTH: Final = 60  # of the name of a kernel or op within a sentence
MAY_LEAVE: Final = "cuDNN may run the weight gradient on a CUDA-core kernel"  # of few filters in 16 bits


def output_channels(count: int) -> str:
    """Return ``1 output channel``, ``3 output channels``."""
    return f"{count} output channel{'s' * (count > 1)}"


def kept(count: int) -> str:
    """Return which of eight filters are kept: ``the first``, ``the first 3``."""
    return f"the first{f' {count}' if count > 1 else ''}"


def with_article(gpu: str) -> str:
    """Return a GPU's name with its article, without form factor and memory: ``an A100``, ``a Tesla V100``."""
    name = _FORM.sub("", gpu)
    return f"{'an' if name[0] in 'AHLR' else 'a'} {name}"


def listed(words: Iterable[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    found = list(words)
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def short_name(kernel: str) -> str:
    """Return a kernel's name without its result, namespaces, template arguments and parameters.

    ``void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half, float>(float)`` -> ``wgrad2d_grouped_direct_kernel``.
    A name that has no such parts, or none outside them, stays as it is.
    """
    head = re.split(r"[<(]", kernel.replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    return head.rpartition("::")[2].rpartition(" ")[2] or kernel
