"""List all rules, one module each; TC1xx judge sizes, TC2xx precision, TC3xx runs."""

from __future__ import annotations

from tcprobe.rules.base import Rule, RuleDoc
from tcprobe.rules.precision import tc201, tc202, tc203, tc204, tc205, tc206, tc207, tc208, tc209, tc210
from tcprobe.rules.run.rules import RUN_RULES
from tcprobe.rules.sizes import tc101, tc102, tc103, tc104, tc105, tc106, tc107, tc108, tc109

RULES: tuple[Rule, ...] = (
    *(tc101, tc102, tc103, tc104, tc105, tc106, tc107, tc108, tc109),
    *(tc201, tc202, tc203, tc204, tc205, tc206, tc207, tc208, tc209, tc210),
)
"""What judges a model before it runs."""
DOCS: tuple[RuleDoc, ...] = (*(rule.DOC for rule in RULES), *(rule.DOC for rule in RUN_RULES))
"""The documentation of every rule, ordered by code."""
