"""List all rules, one module each; TC1xx judge sizes, TC2xx precision, TC3xx runs."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.base import Rule, RuleDoc
from tcprobe.rules.precision import tc201, tc202, tc203, tc204, tc205, tc206, tc208, tc210
from tcprobe.rules.run.rules import RUN_RULES
from tcprobe.rules.sizes import tc101, tc102, tc103, tc104, tc105, tc106, tc107, tc108, tc109

RULES: tuple[Rule, ...] = (
    *(tc101, tc102, tc103, tc104, tc105, tc106, tc107, tc108, tc109),
    *(tc201, tc202, tc203, tc204, tc205, tc206, tc208, tc210),
)
"""What judges a model before it runs."""
DOCS: tuple[RuleDoc, ...] = (*(rule.DOC for rule in RULES), *(rule.DOC for rule in RUN_RULES))
"""The documentation of every rule, ordered by code."""
RETIRED: Final[dict[str, str]] = {
    "TC207": "it looked for constants that float16 cannot hold, and found none in 3,443 public files",
    "TC209": "it looked for sums and powers of 16-bit activations, and found none in 3,443 public files",
}
"""Code of a rule that is no more -> why. No other rule takes the code, and what silences it stays valid."""
