"""The precision that a model computes in: its policy, Keras' version, and what 16 bits save."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from tcprobe.cost.predict import op_cost
from tcprobe.hardware import Capability, Gpu
from tcprobe.rules.base import Subject
from tcprobe.rules.model.step import added, rests_on
from tcprobe.rules.precision.file import File, Setter, file_of
from tcprobe.schema.finding import Finding, Range, WhyKind
from tcprobe.schema.model import Layer, Product
from tcprobe.schema.provenance import Provenance
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.calls import Call
    from tcprobe.source.source import Source

SIXTEEN_BITS: Final = ("float16", "bfloat16")
MIXED: Final = ("mixed_float16", "mixed_bfloat16")
HALF_POLICIES: Final = ("mixed_float16", "float16")
# Compute capability with the first Tensor Cores for a dtype. Source: NVIDIA V100, A100 and Ada whitepapers.
NEEDED: Final[dict[str, Capability]] = {"float16": (7, 0), "bfloat16": (8, 0), "float8": (8, 9)}
_TOUCHED: Final = re.compile(r"float16|mixed_precision|set_\w*policy|LossScale|loss_scale|scaled_loss")


def setters(source: Source) -> tuple[Setter, ...]:
    """Return the calls in a file that set the global policy, in order."""
    return file_of(source).setters


def files_of(subject: Subject) -> list[File]:
    """Return the files of a subject."""
    return [file_of(source) for source in subject.sources.values()]


def setters_of(subject: Subject) -> list[Setter]:
    """Return the calls in all files that set the global policy."""
    return [setter for file in files_of(subject) for setter in file.setters]


def policies_of(subject: Subject) -> frozenset[str | None]:
    """Return every policy that the model may have: the traced one, else all that its files set anywhere.

    None is one that a call sets and the file does not tell, unless 16 bits came out where the file was followed.
    """
    calls = [] if subject.model.mode == "traced" else setters_of(subject)
    followed = subject.model.policy if half_of(subject.model.policy) else None
    return frozenset(setter.policy or followed for setter in calls) or frozenset({subject.model.policy})


def policy_of(subject: Subject) -> str | None:
    """Return the global policy; None where it is unknown, as where the files set two different ones."""
    policies = policies_of(subject)
    return next(iter(policies)) if len(policies) == 1 else None


def touched(subject: Subject) -> Iterator[File]:
    """Yield the files that mention precision, or all files if the model may have another policy than float32."""
    anyway = policies_of(subject) - {None, "float32"}
    return (file_of(source) for source in subject.sources.values() if anyway or _TOUCHED.search(source.text))


def half_of(policy: str | None) -> str | None:
    """Return the 16-bit dtype in which layers compute under a policy; None if it has none."""
    return next((dtype for dtype in SIXTEEN_BITS if policy in (dtype, f"mixed_{dtype}")), None)


def has_cores_for(gpu: Gpu, dtype: str) -> bool:
    """Say whether a GPU has Tensor Cores for a dtype of `NEEDED`."""
    return gpu.tensor_cores and gpu.compute_capability >= NEEDED[dtype]


def keras_major(subject: Subject, file: File | None = None) -> int | None:
    """Return Keras' major version; None if unknown (source mode). A file that takes Keras 2 by name has that."""
    if file is not None and file.keeps_keras_2:
        return 2
    major = (subject.model.keras or "").partition(".")[0]
    return int(major) if major.isdigit() else None


def call_of(subject: Subject, layer: Layer) -> tuple[File, Call] | None:
    """Return the call that constructs a layer, and its file; None where it is not known."""
    if (place := layer.place) is None or (source := subject.sources.get(place.file)) is None:
        return None
    call = source.call_at(place.line, layer.class_name)
    return None if call is None else (file_of(source), call)


class Saved(NamedTuple):
    """What 16 bits save per step over float32, in ns; whose constants it rests on, those of the costliest product."""

    ns: Range
    basis: str
    constants: Provenance | None


def saved(subject: Subject, products: Iterable[Product], half: str) -> Saved | None:
    """Return what 16 bits save over float32; None if no product can be predicted.

    Both costs are from one model, so its error cancels out: the saved share scales the range of float32's time.
    Casts are not counted.
    """
    target, parts, costs = subject.step.target, [], []
    for product in products:
        before = op_cost(product.record, target, "float32", product.compiled)
        after = op_cost(product.record, target, half, product.compiled)
        if before is not None and after is not None and before.ns > 0:
            share = 1 - after.ns / before.ns
            parts.append(Range(*sorted(ns * share for ns in before.ends_ns)).scaled(product.calls))
            costs.append(before)
    basis = "predicted" if target.constants is None else "calibrated"
    return Saved(added(parts), basis, next(iter(rests_on(costs)), None)) if parts else None


def with_saving(finding: Finding, subject: Subject, gain: Saved | None, unknown: WhyKind) -> Finding:
    """Return a finding with what 16 bits save, or why that is not known."""
    if gain is None:
        return replace(finding, why=say(unknown))
    share = subject.step.share_pct(gain.ns)
    return replace(finding, saving_ns=gain.ns, saving_pct=share, basis=gain.basis, constants=gain.constants)
