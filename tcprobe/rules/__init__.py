"""The rules: one module each, listed here; TC1xx judge sizes, TC2xx precision."""

from __future__ import annotations

from tcprobe.rules.base import Rule

RULES: tuple[Rule, ...] = ()
