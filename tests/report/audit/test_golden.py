"""Whole reports of audits, compared with files that a person has read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tcprobe.report import FORMATS
from tcprobe.report.document import ReportSpec
from tests.report.audit.builders import REPORTS, SPEC, document
from tests.report.builders import rendered as rendered_document
from tests.report.seeds import differing

Compare = Callable[[str, str], None]
ENDINGS = {"text": "txt", "markdown": "md", "junit": "xml"}
"""Endings of golden files, where they are not the name of the format."""


def rendered(format_: str, name: str, spec: ReportSpec = SPEC, width: int | None = None, color: bool = False) -> str:
    of = document(REPORTS[name](), spec)
    return rendered_document(format_, of, width, color).replace("\r\n", "\n")


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("format_", [one for one in FORMATS["audit"] if one != "html"])
def test_each_format(format_: str, name: str, golden: Compare) -> None:
    golden(f"audit_{name}.{ENDINGS.get(format_, format_)}", rendered(format_, name))


def test_text_on_a_terminal_of_80_columns_keeps_findings_whole(golden: Compare) -> None:
    golden("audit_findings_80.txt", rendered("text", "findings", width=80))


def test_verbose_lists_what_was_not_judged_and_what_was_silenced(golden: Compare) -> None:
    golden("audit_findings_verbose.txt", rendered("text", "findings", replace(SPEC, verbose=True)))


@pytest.mark.parametrize("name", REPORTS)
def test_a_terminal_gets_the_first_screen_alone(name: str, golden: Compare) -> None:
    text = rendered("text", name, replace(SPEC, brief=True, width=80), width=80)
    golden(f"audit_{name}_screen.txt", text)
    assert text.count("\n") <= 22


def test_the_same_report_gives_the_same_bytes_whatever_the_order_of_sets() -> None:
    assert differing("audit ") == []


def test_colours_come_only_when_asked() -> None:
    assert "\x1b" not in rendered("text", "findings")
    assert "\x1b[31mTC101\x1b[0m" in rendered("text", "findings", color=True)
