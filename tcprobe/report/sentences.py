"""`Sentences`: fills the template of a kind with the fields of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any, Final

from tcprobe.report.formatting import duration, percent, shorten
from tcprobe.rules.base import Says
from tcprobe.rules.sizes.words import listed, with_article
from tcprobe.schema.statement import About, Statement

NAME_WIDTH: Final = 60  # of the name of a kernel or op within a sentence


class Sentences(Formatter):
    """The sentences of a list of kinds; `tcprobe.rules.base.Template` explains the conversions.

    Attributes:
        says: the template of each kind, read anew for each statement.
    """

    def __init__(self, says: Says) -> None:
        """Take the templates."""
        self.says = says

    def sentence_of(self, said: Statement[str]) -> str:
        """Return a statement as a sentence, or as the part of a sentence that its kind stands for."""
        what, rest = self.halves(said.kind, dict(said.fields))
        return f"{what}: {rest}" if rest else what

    def halves(self, kind: str, fields: Mapping[str, Any]) -> tuple[str, str]:
        """Return both sentences of a kind, filled; the second is empty if it has only one."""
        said = self.says[kind]
        template = said(fields) if callable(said) else said
        what, rest = (template, "") if isinstance(template, str) else template
        return self.vformat(what, (), fields), self.vformat(rest, (), fields)

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """Return a field as its conversion wants it."""
        match conversion:
            case None:
                return self._plain(value)
            case "a":
                return with_article(value)
            case "l":
                return listed(value)
            case "q":
                return listed(map(repr, value))
            case "c":
                return ", ".join(map(self.sentence_of, value))
            case "d":
                return duration(value)
            case "p":
                return percent(value)
            case "n":
                return shorten(str(value), NAME_WIDTH)
            case _:
                return super().convert_field(value, conversion)

    def _plain(self, value: Any) -> Any:
        """Return the text of a field; numbers stay numbers, so that a template can format them."""
        match value:
            case Statement():
                return self.sentence_of(value)
            case About():
                return _subject(value)
            case tuple():
                return "".join(map(self.sentence_of, value))
            case _:
                return value


def _subject(about: About) -> str:
    more = f" (and {about.more:,} more)" if about.more else ""
    size = f" {about.dimension}={about.size}" if about.dimension else ""
    return f"{about.class_name} '{about.name}'{more}{size}"
