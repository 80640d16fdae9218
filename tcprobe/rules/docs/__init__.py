"""The documentation of every rule: what `tcprobe explain`, the page of rules and SARIF print."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.docs import fill, precision, run, sizes
from tcprobe.rules.docs.base import RuleDoc

DOCS: Final[tuple[RuleDoc, ...]] = (*sizes.DOCS, *precision.DOCS, *run.DOCS, *fill.DOCS)
"""Ordered by code."""
