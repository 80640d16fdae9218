"""A sentence is made of the fields of a statement: parts are rendered, statements within it are text by then."""

from __future__ import annotations

from tcprobe.report.sentences import NAME_WIDTH, render, sentence_of
from tcprobe.rules.base import Says
from tcprobe.schema.statement import About, Both, Duration, Name, Share, say


def test_parts_are_rendered_as_what_they_are() -> None:
    assert (
        render((Duration(62_100_000_000.0), " of ", Share(12.34), " in ", Name("conv"))) == "62.1 s of 12.3 % in conv"
    )
    assert render("as it is") == "as it is"


def test_a_long_name_keeps_its_ends() -> None:
    said = render((Name("void cudnn::" + "x" * 200 + "_kernel"),))
    assert len(said) == NAME_WIDTH
    assert said.startswith("void cudnn::")
    assert said.endswith("_kernel")


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
