"""Whatever a profile or a model calls its parts, no report steers a terminal, hides a name or gains markup by it."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis import analyse
from tcprobe.errors import TcprobeError
from tcprobe.readers.open import open_profile
from tcprobe.report import FORMATS, RENDERERS, RenderSpec
from tcprobe.report.document import (
    Block,
    ColumnHead,
    Document,
    Facts,
    Folded,
    Heading,
    Lines,
    NumberedList,
    Remark,
    Remarks,
    ReportSpec,
    Section,
    TextLine,
    TextPart,
)
from tcprobe.report.run.advice import with_texts
from tcprobe.report.run.document import RunDocument
from tcprobe.report.text import STYLES
from tcprobe.schema.columns import Names, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.statement import Statement
from tests.report.audit.builders import REPORTS, SPEC, document
from tests.report.builders import PROFILES, Plain, rendered, run
from tests.support import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
PATHS = (
    *sorted((FIXTURES / "dlprof").glob("*_*[0-9]")),
    *sorted((FIXTURES / "xplane").glob("*.pb")),
    FIXTURES / "gpu_run/run",
)
MARKUP = "\n# h\n|x|<b>`]( ![a](http://e.vil) <http://a.b> www.e.vil @me #1 [l]: http://x.y\n---\n"
STEERING = "\x1b[2J\x1b]0;t\x07\x9b31m\r\b\u202e\u2066\u200b\ufeff\u2028\udcff\ue000\ufe0f\U000e0041\u3164"
NASTY = "\u0301" + STEERING + "o" + 9 * "\u0301" + MARKUP + "\u5c42=1\t"
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


COLOURS = {f"\x1b[{code}m" for code in (0, *STYLES.values())}
"""What our own colours are on a terminal."""


def leaks(text: str) -> list[str]:
    """Return what a person would not see of a text: all but its line ends and our own colours."""
    for code in COLOURS:
        text = text.replace(code, "")
    return sorted(
        {c for c in text if c != "\n" and (unicodedata.category(c) in HIDDEN or c in "\ufe0f\u3164")}
        | set(re.findall("[\u0301]{5,}", text))
    )


def nasty_table(table: Table) -> Table:
    names = {c.name: table.names(c.name) for c in table.spec.columns if c.kind == "str" and not c.values}
    return table.with_columns(**{n: Names(x.ids, [name + NASTY for name in x.names]) for n, x in names.items()})


def nasty(value: Any) -> Any:
    """Return a value whose every text, however deep, ends in what steers a terminal."""
    match value:
        case str():
            return value + NASTY
        case Table():
            return nasty_table(value)
        case tuple() | list():
            return type(value)(map(nasty, value))
        case dict():
            return {key: nasty(x) for key, x in value.items()}
        case Statement():
            return Statement(value.kind, tuple((n, x if isinstance(x, str) else nasty(x)) for n, x in value.fields))
        case Struct():
            return replace(
                value, **{name: nasty(getattr(value, name)) for name in value.__struct_fields__ if name not in KEPT}
            )
        case _:
            return value


KEPT = {
    "code",
    "level",
    "format",
    "kind",
    "severity",
    "mode",
    "passes",
    "basis",
    "evidence",
    "window",
    "constants",
    "root",
}
"""Fields from closed lists, which no file fills with anything else."""


def analysed(path: Path) -> Profile | None:
    """Return a fixture with nasty names in all that was recorded, then also in all that follows; None if unusable."""
    recorded = open_profile(path)
    hostile = recorded.with_tables(*map(nasty_table, recorded.tables.values()))
    try:
        whole = with_texts(analyse(hostile))
    except TcprobeError:
        return None
    tables = {name: nasty_table(table) for name, table in whole.tables.items()}
    return replace(whole, metadata=nasty(whole.metadata), tables=tables, absent=nasty(whole.absent))


@cache
def documents() -> dict[str, Document]:
    """Return the reports of all fixtures and of all profiles built by hand, and audits, with nasty names."""
    found: dict[str, Document] = {}
    for path in PATHS:
        if (profile := analysed(path)) is not None:
            found[f"{path.parent.name}/{path.name}"] = RunDocument(profile, ReportSpec(2))
    for name, made in PROFILES.items():
        built = made()
        tables = {n: nasty_table(t) for n, t in built.tables.items()}
        found[name] = run(replace(built, metadata=nasty(built.metadata), tables=tables, absent=nasty(built.absent)))
    found |= {
        f"audit {name}": document(nasty(report()), replace(SPEC, verbose=True)) for name, report in REPORTS.items()
    }
    return found


@cache
def shown(format_: str, width: int | None = None, color: bool = False) -> dict[str, str]:
    """Return all documents that a format has, rendered."""
    kinds = {name: "audit" if name.startswith("audit ") else "run" for name in documents()}
    chosen = {name: made for name, made in documents().items() if format_ in FORMATS[kinds[name]]}  # type: ignore[index]
    return {name: rendered(format_, made, width, color) for name, made in chosen.items()}


def test_the_fixtures_are_there() -> None:
    assert len(documents()) >= 16
    assert all("\u5c42=1" in text for text in shown("text").values())


@pytest.mark.parametrize(
    ("format_", "width", "color"),
    [
        ("text", None, False),
        ("text", 60, True),
        ("markdown", None, False),
        ("html", None, False),
        ("github", None, False),
        ("junit", None, False),
    ],
)
def test_nothing_steers_the_terminal_or_hides(format_: str, width: int | None, color: bool) -> None:
    assert {name: found for name, text in shown(format_, width, color).items() if (found := leaks(text))} == {}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_csv_on_a_terminal_is_visible_too() -> None:
    for name, made in documents().items():
        out = Terminal()
        (renderer,) = (r for r in RENDERERS if r.name == "csv")
        renderer.render(made, RenderSpec(), out)
        assert not leaks(out.getvalue().replace("\r\n", "\n")), name


@pytest.mark.parametrize("format_", ["json", "sarif"])
def test_json_is_ascii_and_valid_whatever_a_name_holds(format_: str) -> None:
    for text in shown(format_).values():
        assert text.isascii()
        json.loads(text)


def blocks(text: str) -> tuple[Block, ...]:
    """Return one block of each kind, and each text part in each style, filled with `text`."""
    plain, strong, code = (TextPart(text, style) for style in ("plain", "strong", "code"))
    section = Section(text, (ColumnHead("a"), ColumnHead("b")), ((text, text), (text, text)), (text,))
    return (
        *(Heading(text, 1), Lines(tuple(TextLine((part,)) for part in (plain, strong, code)))),
        *(Lines((TextLine((plain, code)),), bullets=True), Facts(((text, text),)), NumberedList(text, (text,))),
        *(Remarks((Remark("note", text, text),)), section, Folded(text, (section,))),
    )


OPENINGS = (
    "# h",
    "- a",
    "+ a",
    "1. a",
    "22) a",
    "===",
    "---",
    "***",
    "    code",
    "> q",
    "```",
    "~~~",
    "| a |",
    "[a]: /b",
)
FOREIGN = {"link_open", "image", "hr", "fence", "code_block", "blockquote_open", "s_open", "ordered_list_open"}
NAMES = (NASTY, MARKUP, *OPENINGS, "`` ` ``", "<details>", "</details>", "http://e.vil", "a@b.co", "![a](b)", "<!-- a")


def markdown_pages() -> dict[str, str]:
    made = {name: rendered("markdown", Plain(blocks(name))) for name in NAMES}
    some = ("gpu_run/run", "dlprof/tf2_1.8", "cpu", "phases", "audit findings", "audit unjudged")
    return {**{name: shown("markdown")[name] for name in some}, **made}


def test_no_name_is_markup_in_markdown() -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    allowed = {
        "html_inline": r"<!-- -->",
        "html_block": r"(<details><summary>((?!<(?!!-- -->)).)*</summary>|</details>)\n?",
    }
    for name, text in markdown_pages().items():
        tokens = [t for token in parser.parse(text) for t in (token, *(token.children or ()))]
        found = {t.type for t in tokens} & {
            "link_open",
            "image",
            "hr",
            "code_block",
            "blockquote_open",
            "s_open",
        }
        assert not found, name
        assert [t.type for t in tokens].count("fence") <= 1, name  # the first screen's
        text = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, count=1, flags=re.DOTALL | re.MULTILINE)
        for kind, pattern in allowed.items():
            assert all(re.fullmatch(pattern, t.content) for t in tokens if t.type == kind), name
        assert not re.search(r":(?=//)|www(?=\.)|@(?=\w)|(?<!`)#(?=\d)", re.sub("`+[^`]+`+", "", text)), name


def test_no_name_is_a_block_of_its_own_in_markdown() -> None:
    parser = MarkdownIt("commonmark").enable("table")
    expected = [token.type for token in parser.parse(rendered("markdown", Plain(blocks("name"))))]
    for name in NAMES:
        made = [token.type for token in parser.parse(rendered("markdown", Plain(blocks(name))))]
        assert made == expected, name
