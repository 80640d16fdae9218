"""What makes a module a rule: the names it must define. `tcprobe.rules.registry` lists the rules.

A rule yields findings; the audit adds severity, suppression and fixes, and the reports print them. A finding
carries a severity only if the rule itself decides it; otherwise the predicted saving does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.model import Model

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step
    from tcprobe.source.source import Source

Template: TypeAlias = str | tuple[str, str]
"""A sentence with fields, filled by `tcprobe.report.sentences`. A finding has two: what it is and how bad it is; advice
has what to do and why.

``{gpu!a}`` is the name of a GPU with its article, ``{passes!l}`` a list with ``and``, ``{settings!c}`` one with commas,
``{gap_ns!d}`` a duration, ``{share_pct!p}`` a percentage, ``{before!n}`` a name that may be long.
"""
Says: TypeAlias = Mapping[str, Template | Callable[[Mapping[str, Any]], Template]]
"""The template of each kind, or a function that chooses it from the fields."""


@dataclass(frozen=True, slots=True)
class RuleDoc:
    """The documentation of a rule, shown by `tcprobe explain` and on the page of rules.

    Attributes:
        code: ``TC101``.
        name: two to four words in kebab case (``unaligned-dimension``).
        summary: one sentence.
        explanation: a paragraph or two: what happens, on which GPUs, and when it does not matter.
        severity: how the severity is decided, or of a rule on runs what it weighs, in a sentence.
        bad: code that the rule finds.
        good: the same code, corrected.
        sources: what the claim rests on (document, version, section).
        fixable: whether `--fix` may correct it.
        level: the usual severity, for formats that want one per rule.
    """

    code: str
    name: str
    summary: str
    explanation: str
    severity: str
    bad: str
    good: str
    sources: tuple[str, ...]
    fixable: bool = False
    level: Severity = "warning"

    @property
    def of_runs(self) -> bool:
        """Return whether the rule judges a run that was profiled, not a model."""
        return self.code.startswith("TC3")

    @property
    def weighed_by(self) -> str:
        """Return what `severity` tells, as its heading."""
        return "Weight" if self.of_runs else "Severity"


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule may read.

    Attributes:
        model: the layers and products.
        step: predicted costs of the products, and what a change would save.
        sources: the user's parsed files, by absolute path; files that do not parse are missing.
    """

    model: Model
    step: Step
    sources: Mapping[str, Source]


class Rule(Protocol):
    """One rule.

    Attributes:
        DOC: its documentation.
        SAYS: the sentences of the kinds that it yields, except those in a module that several rules share.
    """

    DOC: RuleDoc
    SAYS: Says

    def check(self, subject: Subject) -> Iterator[Finding]:
        """Yield the findings, one for each place and dimension."""
        ...
