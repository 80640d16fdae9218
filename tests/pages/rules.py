"""The part of docs/rules.md that is made from the documentation of each rule in tcprobe/rules."""

from __future__ import annotations

from tcprobe.rules.docs import DOCS
from tcprobe.rules.docs.base import RuleDoc
from tcprobe.rules.registry import RETIRED


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


def rules() -> str:
    """Return the list of the rules, and a section for each."""
    return "\n".join([_index(), *(_section(doc) for doc in DOCS)])
