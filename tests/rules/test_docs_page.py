"""docs/rules.md, and the documentation of every rule."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from docs.make_rules import page
from tcprobe.rules.base import Rule, RuleDoc
from tcprobe.rules.registry import DOCS, RETIRED, RULES
from tcprobe.rules.run.base import RunRule
from tcprobe.rules.run.rules import RUN_RULES
from tests.support import ROOT


def named(doc: RuleDoc) -> str:
    return doc.code


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == page(), "run python -m docs.make_rules"


def test_every_module_of_a_rule_is_listed_once_in_order() -> None:
    files = sorted(path.stem.upper() for path in (ROOT / "tcprobe" / "rules").rglob("tc[0-9]*.py"))
    assert [doc.code for doc in DOCS] == files
    assert len({doc.name for doc in DOCS}) == len(DOCS)


def test_the_code_of_a_retired_rule_is_not_used_again() -> None:
    assert set(RETIRED) == {"TC207", "TC209"}
    assert not set(RETIRED) & {doc.code for doc in DOCS}
    assert all(f"- {code}: " in page() for code in RETIRED)


@pytest.mark.parametrize("doc", DOCS, ids=named)
def test_a_rule_says_all_that_explain_prints(doc: RuleDoc) -> None:
    assert re.fullmatch(r"TC[123]\d\d", doc.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", doc.name)
    assert doc.summary.endswith(".")
    assert doc.explanation.rstrip().endswith(".")
    assert doc.severity.endswith(".")
    assert doc.sources
    assert all(doc.sources)
    ast.parse(doc.bad)
    ast.parse(doc.good)


@pytest.mark.parametrize("doc", DOCS, ids=named)
def test_the_index_leads_to_every_section(doc: RuleDoc) -> None:
    text = page()
    assert f"](#{doc.code.lower()}-{doc.name})" in text
    assert f"## {doc.code} {doc.name}\n" in text


def test_a_rule_is_what_the_audit_or_the_report_takes() -> None:
    def taken(rule: Rule) -> str:
        return rule.DOC.code

    def weighed(rule: RunRule) -> str:
        return rule.DOC.code

    assert [*map(taken, RULES), *map(weighed, RUN_RULES)] == [doc.code for doc in DOCS]
    assert all(callable(rule.check) for rule in (*RULES, *RUN_RULES))


def test_listing_the_rules_loads_nothing_heavy() -> None:
    heavy = ("numpy", "pandas", "tensorflow", "libcst")
    code = f"import tcprobe.rules.registry, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
