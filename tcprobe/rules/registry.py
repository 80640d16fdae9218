"""List all rules, one module each; TC1xx judge sizes, TC2xx precision."""

from __future__ import annotations

from tcprobe.rules.base import Rule
from tcprobe.rules.precision import tc201, tc202, tc203, tc204, tc205, tc206, tc207, tc208, tc209, tc210
from tcprobe.rules.sizes import tc101, tc102, tc103, tc104, tc105, tc106, tc107, tc108, tc109

RULES: tuple[Rule, ...] = (
    *(tc101, tc102, tc103, tc104, tc105, tc106, tc107, tc108, tc109),
    *(tc201, tc202, tc203, tc204, tc205, tc206, tc207, tc208, tc209, tc210),
)
