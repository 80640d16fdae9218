"""Templates are filled with fields: plain, or as a conversion says."""

from __future__ import annotations

import pytest

from tcprobe.report.sentences import NAME_WIDTH, Sentences
from tcprobe.schema.statement import About, say


@pytest.mark.parametrize(
    ("template", "fields", "said"),
    [
        ("{ns!d} of {pct!p}", {"ns": 62_100_000_000.0, "pct": 12.34}, "62.1 s of 12.3 %"),
        ("{gpu!a} in {passes!l}", {"gpu": "A100", "passes": ("forward", "dgrad")}, "an A100 in forward and dgrad"),
        ("{n:,} of {op}", {"n": 1234, "op": "conv"}, "1,234 of conv"),
        ("{of}", {"of": About("Conv2D", "c", "filters", 31)}, "Conv2D 'c' filters=31"),
        ("{inner}", {"inner": say("other", n=3)}, "3 others"),
        ("{several!c}", {"several": (say("other", n=1), say("other", n=2))}, "1 others, 2 others"),
    ],
)
def test_a_field_is_said_as_its_conversion_wants(template: str, fields: dict[str, object], said: str) -> None:
    assert Sentences({"kind": template, "other": "{n} others"}).halves("kind", fields) == (said, "")


def test_a_long_name_keeps_its_ends() -> None:
    name = "void cudnn::" + "x" * 200 + "_kernel"
    said, _ = Sentences({"kind": "{name!n}"}).halves("kind", {"name": name})
    assert len(said) == NAME_WIDTH
    assert said.startswith("void cudnn::")
    assert said.endswith("_kernel")


def test_a_template_may_be_chosen_by_the_fields_and_have_two_sentences() -> None:
    sentences = Sentences({"kind": lambda fields: ("{n}", "why" if fields["n"] > 1 else "")})
    assert sentences.halves("kind", {"n": 2}) == ("2", "why")
    assert sentences.sentence_of(say("kind", n=2)) == "2: why"
    assert sentences.sentence_of(say("kind", n=1)) == "1"
