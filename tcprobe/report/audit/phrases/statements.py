"""Turn a statement into the sentence of its kind, filled with its fields.

A rule's sentences are in the rule's file. Those of fixes are here and in `refusals`, as the code that makes fixes
holds no sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any, Final

from tcprobe.report.audit.phrases import refusals
from tcprobe.rules.base import Says, Template
from tcprobe.rules.says import SAYS as RULES_SAY
from tcprobe.rules.sizes.words import listed, with_article
from tcprobe.schema.statement import About, Statement


def _no_fix(fields: Mapping[str, Any]) -> str:
    return "no fix: {reason}" if fields["beside"] is None else "{beside}; no fix: {reason}"


def _changes(fields: Mapping[str, Any]) -> str:
    first = " and keep only the first" if fields["keeps_first"] else ""
    if not fields["others"]:
        return f"change {{last}}{first}"
    return f"change {{others!c}} and {{last}}{first} together"


SAYS: Final[Says] = {
    **RULES_SAY,
    **refusals.SAYS,
    "saves_little": "mending it saves less than {pct:g} % of the step each",
    "no_fix": _no_fix,
    "change_sizes": _changes,
    "size_changed": "{argument} {old} to {new}",
}


class _Sentences(Formatter):
    """Fills templates; `tcprobe.rules.base.Template` explains the conversions."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        match conversion:
            case None:
                return _plain(value)
            case "a":
                return with_article(value)
            case "l":
                return listed(value)
            case "q":
                return listed(map(repr, value))
            case "c":
                return ", ".join(map(sentence_of, value))
            case _:
                return super().convert_field(value, conversion)


_SENTENCES: Final = _Sentences()


def sentence_of(said: Statement[str]) -> str:
    """Return a statement as a sentence, or as the part of a sentence that its kind stands for."""
    what, rest = halves(said)
    return f"{what}: {rest}" if rest else what


def halves(said: Statement[str]) -> tuple[str, str]:
    """Return what a statement says, and separately how bad it is or what helps, if it says so."""
    fields = dict(said.fields)
    template = _template(said.kind, fields)
    what, rest = (template, "") if isinstance(template, str) else template
    return _SENTENCES.vformat(what, (), fields), _SENTENCES.vformat(rest, (), fields)


def _template(kind: str, fields: Mapping[str, Any]) -> Template:
    said = SAYS[kind]
    return said(fields) if callable(said) else said


def _plain(value: Any) -> Any:
    """Return the text of a field; numbers stay numbers, so that a template can format them."""
    match value:
        case Statement():
            return sentence_of(value)
        case About():
            return _subject(value)
        case tuple():
            return "".join(map(sentence_of, value))
        case _:
            return value


def _subject(about: About) -> str:
    more = f" (and {about.more:,} more)" if about.more else ""
    size = f" {about.dimension}={about.size}" if about.dimension else ""
    return f"{about.class_name} '{about.name}'{more}{size}"
