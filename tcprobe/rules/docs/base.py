"""`RuleDoc`: the documentation of one rule."""

from __future__ import annotations

from msgspec import Struct

from tcprobe.rules.registry import rule_of
from tcprobe.schema.finding import Severity


class RuleDoc(Struct, frozen=True):
    """The documentation of a rule, shown by `tcprobe explain` and on the page of rules."""

    code: str  # ``TC101``
    summary: str  # one sentence
    explanation: str  # a paragraph or two: what happens, on which GPUs, and when it does not matter
    severity: str  # how the severity is decided, or of a rule on runs what it weighs, in a sentence
    bad: str  # code that the rule finds
    good: str  # the same code, corrected
    sources: tuple[str, ...]  # what the claim rests on (document, version, section)
    level: Severity = "warning"  # the usual severity, for formats that want one per rule

    @property
    def name(self) -> str:
        """Return two to four words in kebab case (``unaligned-dimension``)."""
        return rule_of(self.code).name

    @property
    def fixable(self) -> bool:
        """Return whether `--fix` may correct what the rule finds."""
        return rule_of(self.code).fixable

    @property
    def of_runs(self) -> bool:
        """Return whether the rule judges a run that was profiled, not a model."""
        return self.code.startswith("TC3")

    @property
    def weighed_by(self) -> str:
        """Return what `severity` tells, as its heading."""
        return "Weight" if self.of_runs else "Severity"
