"""What a person asked to see of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcprobe.rules.base import RuleDoc


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """What a person asked to see of an audit.

    Attributes:
        cwd: folder to which paths are shown relative, where they lie inside it; absolute.
        rules: documentation of the rules, for formats that carry it.
        verbose: whether to list what the short form only counts.
        typed: what the user typed behind ``tcprobe audit-shapes``, to propose the next command; empty where unknown.
    """

    cwd: str
    rules: tuple[RuleDoc, ...] = ()
    verbose: bool = False
    typed: tuple[str, ...] = ()
