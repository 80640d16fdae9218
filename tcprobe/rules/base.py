"""What a rule on models reads, and what its sentences are.

A rule yields findings; the audit adds severity, suppression and fixes, and the reports print them. A finding
carries a severity only if the rule itself decides it; otherwise the predicted saving does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from tcprobe.schema.model import Model
from tcprobe.schema.statement import Both

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step
    from tcprobe.source.source import Source

Says: TypeAlias = Mapping[str, str | Both | Callable[..., str | Both]]
"""The sentence of each kind; where it has fields, a function of these. Statements among them are text by then."""


class Subject(Struct, frozen=True):
    """What a rule may read."""

    model: Model  # the layers and products
    step: Step  # predicted costs of the products, and what a change would save
    sources: Mapping[str, Source]  # the user's parsed files, by absolute path; files that do not parse are missing
