"""Turn a statement into the sentence of its kind, filled with its fields.

A rule's sentences are in the rule's file. Those of fixes are here and in `refusals`, as the code that makes fixes
holds no sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tcprobe.report.audit.phrases import refusals
from tcprobe.report.sentences import Sentences
from tcprobe.rules.base import Says
from tcprobe.rules.says import SAYS as RULES_SAY
from tcprobe.schema.statement import Statement


def _no_fix(fields: Mapping[str, Any]) -> str:
    return "no fix: {reason}" if fields["beside"] is None else "{beside}; no fix: {reason}"


def _changes(fields: Mapping[str, Any]) -> str:
    return "change {others!c} and {last} together" if fields["others"] else "change {last}"


SAYS: Final[Says] = {
    **RULES_SAY,
    **refusals.SAYS,
    "saves_little": "mending it saves less than {pct:g} % of the step each",
    "no_fix": _no_fix,
    "change_sizes": _changes,
    "size_changed": "{argument} {old} to {new}",
}


_SENTENCES: Final = Sentences(SAYS)


def sentence_of(said: Statement[str]) -> str:
    """Return a statement as a sentence, or as the part of a sentence that its kind stands for."""
    return _SENTENCES.sentence_of(said)


def halves(said: Statement[str]) -> tuple[str, str]:
    """Return what a statement says, and separately how bad it is or what helps, if it says so."""
    return _SENTENCES.halves(said.kind, dict(said.fields))
