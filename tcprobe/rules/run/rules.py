"""The rules on runs, TC3xx, one module each: all that a report loads of the rules."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.base import Says
from tcprobe.rules.run import tc301, tc302, tc303, tc304, tc305, tc306, tc307, tc308, tc309
from tcprobe.rules.run.base import RunRule
from tcprobe.rules.run.step import tc310, tc311, tc312, tc313, tc314, tc315, tc316, tc317

RUN_RULES: Final[tuple[RunRule, ...]] = (
    *(tc301, tc302, tc303, tc304, tc305, tc306, tc307, tc308, tc309),
    *(tc310, tc311, tc312, tc313, tc314, tc315, tc316, tc317),
)
"""What judges a run that was profiled."""
RUN_NAMES: Final = {rule.DOC.code: rule.DOC.name for rule in RUN_RULES}
"""Code of a rule -> its name."""
RUN_SAYS: Final[Says] = {kind: said for rule in RUN_RULES for kind, said in rule.SAYS.items()}
"""The sentences of these rules: what to do and why."""
