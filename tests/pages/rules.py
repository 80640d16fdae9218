"""Write docs/rules.md from the documentation of each rule in tcprobe/rules: `python -m tests.pages.rules`."""

from __future__ import annotations

from pathlib import Path

from tcprobe.rules.docs import DOCS
from tcprobe.rules.docs.base import RuleDoc
from tcprobe.rules.registry import RETIRED

HEAD = """<!-- fmt: off -->
# The rules

Generated from `tcprobe/rules/` by `python -m tests.pages.rules`: what `tcprobe audit-shapes` looks for, one section per
rule, the same text that `tcprobe explain CODE` prints. TC1xx judge sizes, TC2xx precision. Unless a rule decides its
severity itself, it comes from what the suggestion is predicted to save: error at 5 % of the step or more, warning
where it may be 1 % or more, else note ([more](audit-shapes.md#severity)). TC3xx judge a run: they are what `tcprobe
report` and `tcprobe profile` list under "What to do first", ordered by what each saves of the step
([figures.md](figures.md#advice)).
"""


def _row(doc: RuleDoc) -> str:
    fix = "yes" if doc.fixable else ""
    return f"| [{doc.code}](#{doc.code.lower()}-{doc.name}) | {doc.name} | {doc.summary} | {fix} |"


def _index() -> str:
    rows = "\n".join(_row(doc) for doc in DOCS)
    retired = "\n".join(f"- {code}: {why}." for code, why in RETIRED.items())
    table = f"| code | name | finds | `--fix` |\n|---|---|---|---|\n{rows}\n"
    return f"{table}\nRetired; their codes are not used again, and what silences them may stay:\n\n{retired}\n"


def _section(doc: RuleDoc) -> str:
    sources = "\n".join(f"- {source}" for source in doc.sources)
    return "\n".join(
        [
            f"## {doc.code} {doc.name}",
            f"{doc.summary}\n",
            f"{doc.explanation}\n",
            f"{doc.weighed_by}: {doc.severity}\n",
            f"Bad:\n```python\n{doc.bad.strip()}\n```",
            f"Good:\n```python\n{doc.good.strip()}\n```",
            f"Sources:\n{sources}\n",
        ]
    )


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, _index(), *(_section(doc) for doc in DOCS)])


if __name__ == "__main__":
    (Path(__file__).parents[2] / "docs/rules.md").write_text(page(), encoding="utf-8")
