"""docs/rules.md, and the documentation of every rule."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tcprobe.rules.docs import DOCS
from tcprobe.rules.docs.base import RuleDoc
from tcprobe.rules.registry import RETIRED, RULES, RUN_RULES
from tests.pages import rules


def named(doc: RuleDoc) -> str:
    return doc.code


def test_the_code_of_a_retired_rule_is_not_used_again() -> None:
    assert set(RETIRED) == {"TC207", "TC209"}
    assert not set(RETIRED) & {doc.code for doc in DOCS}
    assert all(f"- {code}: " in rules.rules() for code in RETIRED)


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
    text = rules.rules()
    assert f"](#{doc.code.lower()}-{doc.name})" in text
    assert f"## {doc.code} {doc.name}\n" in text


def test_every_rule_has_a_documentation_and_a_module() -> None:
    assert [rule.code for rule in (*RULES, *RUN_RULES)] == [doc.code for doc in DOCS]
    assert len({rule.name for rule in (*RULES, *RUN_RULES)}) == len(DOCS)
    modules = {rule.module: rule.load() for rule in (*RULES, *RUN_RULES)}
    held = [name.upper() for module in modules.values() for name in vars(module) if re.fullmatch(r"tc\d+", name)]
    assert sorted(held) == [doc.code for doc in DOCS]


def test_listing_the_rules_loads_nothing_heavy() -> None:
    heavy = ("numpy", "pandas", "tensorflow", "libcst")
    code = f"import tcprobe.rules.docs, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
