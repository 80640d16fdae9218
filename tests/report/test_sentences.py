"""A sentence is made of the fields of a statement: statements within it are text by then."""

from __future__ import annotations

from tcprobe.report.sentences import sentence_of
from tcprobe.rules.base import Says
from tcprobe.schema.statement import About, Both, say


def test_a_field_is_handed_over_as_it_is_or_as_text() -> None:
    says: Says = {
        "kind": lambda of, inner, several, n: f"{of}: {inner}, {' and '.join(several)}, {n + 1}",
        "other": lambda n: f"{n} others",
    }
    inner, several = say("other", n=3), (say("other", n=1), say("other", n=2))
    said = say("kind", of=About("Conv2D", "c", "filters", 31), inner=inner, several=several, n=4)
    assert sentence_of(says, said) == "Conv2D 'c' filters=31: 3 others, 1 others and 2 others, 5"


def test_a_kind_may_have_two_sentences() -> None:
    says: Says = {"kind": lambda n: Both(f"{n}", "why" if n > 1 else ""), "plain": Both("one", "two")}
    assert sentence_of(says, say("kind", n=2)) == "2: why"
    assert sentence_of(says, say("kind", n=1)) == "1"
    assert sentence_of(says, say("plain")) == "one: two"
