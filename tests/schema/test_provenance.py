"""Whose constants a figure rests on: what is borrowed, as columns and back, and several joined."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tcprobe.schema.provenance import COLUMNS, Provenance, Stack, merged

IDS = st.sampled_from(["a100-sxm-80", "h200-sxm", "v100-sxm2", "t4"])
MAYBE = st.none() | IDS
LENT = Provenance("b200", "h200-sxm", Stack("serving", "vLLM"), framework_of="a100-sxm-80", widened=1.43)


def test_what_is_borrowed() -> None:
    assert LENT.borrowed == {"gpu": "h200-sxm", "stack": "a100-sxm-80"}
    assert LENT.columns() == {
        "constants_gpu": "h200-sxm",
        "constants_stack": "vLLM",
        "constants_borrowed": "gpu: h200-sxm; stack: a100-sxm-80",
    }
    own = Provenance("t4", "t4", Stack())
    assert (own.borrowed, own.columns()) == ({}, {"constants_gpu": "t4", **dict.fromkeys(COLUMNS[1:])})


@given(IDS, IDS, st.sampled_from(["", "vLLM"]), st.tuples(MAYBE, MAYBE, MAYBE, MAYBE))
def test_columns_say_all_but_the_kind_of_stack_and_the_width(
    gpu: str, owner: str, name: str, lent: tuple[str | None, str | None, str | None, str | None]
) -> None:
    made = Provenance(gpu, owner, Stack(name=name), *lent)
    assert Provenance.of(made.columns(), gpu) == made


@given(st.text() | st.none(), st.text() | st.none(), st.text() | st.none())
def test_any_text_is_read(owner: str | None, name: str | None, borrowed: str | None) -> None:
    found = Provenance.of(dict(zip(COLUMNS, (owner, name, borrowed), strict=True)), "t4")
    assert (found is None) == (owner is None)


def test_several_are_joined_by_gpu_and_stack() -> None:
    conv = Provenance("b200", "h200-sxm", Stack("serving", "vLLM"), "tc16", convolutions_of="v100-sxm2")
    other = Provenance("b200", "v100-sxm2", Stack("benchmark", "DeepBench"))
    assert merged([LENT, other, conv]) == (
        Provenance("b200", "h200-sxm", LENT.stack, "tc16", "a100-sxm-80", "v100-sxm2", None, 1.43),
        other,
    )
    assert merged([]) == ()
