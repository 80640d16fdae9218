"""What a rule is: a module of this package with these names, listed in `tcprobe.rules.RULES`.

A rule yields findings; severity, suppression, fixes and printing are the audit's business. A finding whose severity
is the rule's own decision carries it; any other gets it from its predicted saving.
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
"""A sentence with fields, which `tcprobe.report.audit.phrases` fills; of a finding two: what it is, how bad it is.

``{gpu!a}`` is a GPU's name with its article, ``{passes!l}`` a list with ``and``, ``{settings!c}`` one with commas.
"""
Says: TypeAlias = Mapping[str, Template | Callable[[Mapping[str, Any]], Template]]
"""The template of each kind, or what chooses it by the fields."""


@dataclass(frozen=True, slots=True)
class RuleDoc:
    """A rule's documentation, from which `tcprobe explain` and the page of rules are made.

    Attributes:
        code: ``TC101``.
        name: two to four words in kebab case (``unaligned-dimension``).
        summary: one sentence.
        explanation: a paragraph or two: what happens, on which GPUs, and when it does not matter.
        severity: how the severity comes about, in a sentence.
        bad: code that the rule finds.
        good: the same, mended.
        sources: where the claim comes from (document, version, section).
        fixable: whether `--fix` may mend it.
        level: the severity to expect of it, for formats that ask for one per rule.
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


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule may look at.

    Attributes:
        model: layers and products.
        step: predicted costs of the products, and what a change would save.
        sources: the user's files that took part, parsed, by absolute path; a file that does not parse is missing.
    """

    model: Model
    step: Step
    sources: Mapping[str, Source]


class Rule(Protocol):
    """One rule.

    Attributes:
        DOC: its documentation.
        SAYS: the sentences of the kinds that it finds; those that rules share stand in a module that they share.
    """

    DOC: RuleDoc
    SAYS: Says

    def check(self, subject: Subject) -> Iterator[Finding]:
        """Yield what the rule finds, each place and dimension once."""
        ...
