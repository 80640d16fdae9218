"""Audits, fixes and audits again of programs changed by chance: never a crash, and nothing but what was asked."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.audit.fix.fixes.mutate import mutated, programs
from tests.audit.fix.fixes.whole import Whole, whole
from tests.support import examples

PROGRAMS = programs()
NUMBER = re.compile(r"\b0[xX][\da-fA-F]+|\b\d[\d_]*\b")
LAMBDA = re.compile(r",?\s*[\w.]*Lambda\(lambda images: images\[\.\.\., :\d+\]\),?|, Lambda|\[\.\.\., :\d+\]")
KEEPS = ("name", "kernel_size", "strides", "groups", "num_heads", "rate", "epsilon", "activation", "padding")


def plain(text: str) -> str:
    """Return a text without numbers, and without what keeps the first filters."""
    return re.sub(r"[\s,]+", " ", NUMBER.sub("0", LAMBDA.sub("", text)))


def layers_of(audited: Whole) -> list[tuple[str, str]]:
    return [(x.name, x.kind) for model in audited.models for x in model.layers if x.kind != "Lambda"]


def check(text: str) -> None:
    before = whole(text)
    after = whole(before.mended)
    assert plain(before.mended) == plain(text)
    assert after.mended == before.mended, "a second time changes something"
    # The step is shorter now: what was a note may be a warning, but nothing is found that was not there.
    assert after.sizes() <= before.sizes()
    fixed = {(f.code, f.layer, f.dimension) for f in before.findings if f.fix is not None}
    assert not after.sizes("error", "warning") & fixed
    if "Lambda" not in before.mended:
        assert layers_of(after) == layers_of(before)
    changed = {(e.before, e.after) for f in before.findings if f.fix for e in f.fix.edits if e.before}
    numbers = zip(NUMBER.findall(LAMBDA.sub("", text)), NUMBER.findall(LAMBDA.sub("", before.mended)), strict=True)
    assert {pair for pair in numbers if pair[0] != pair[1]} <= changed
    for old, new in (
        zip(_plain_layers(before), _plain_layers(after), strict=False) if "Lambda" not in after.text else ()
    ):
        assert {k: old[k] for k in KEEPS if k in old} == {k: new[k] for k in KEEPS if k in new}


def _plain_layers(audited: Whole) -> list[dict[str, object]]:
    return [dict(layer.config) for model in audited.models for layer in model.layers]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_as_they_are(name: str) -> None:
    check(PROGRAMS[name])


@given(st.sampled_from(sorted(PROGRAMS)), st.randoms(use_true_random=False))
@settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_changed_by_chance(name: str, chance: random.Random) -> None:
    check(mutated(PROGRAMS[name], chance))
