"""`AuditSpec`: what the user asked to see of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcprobe.rules.base import RuleDoc


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """What the user asked to see of an audit.

    Attributes:
        cwd: absolute path of a folder; paths inside it are shown relative to it.
        rules: documentation of the rules, for formats that include it.
        verbose: whether to list what the short form only counts.
        typed: what the user typed after ``tcprobe audit-shapes``, to suggest the next command; empty if unknown.
    """

    cwd: str
    rules: tuple[RuleDoc, ...] = ()
    verbose: bool = False
    typed: tuple[str, ...] = ()
