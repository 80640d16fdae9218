"""Fixes of programs made up or changed by chance: whole, certain, made once and for all; seen by libcst as well."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.audit.fix.fixes.mutate import mutated, programs
from tests.audit.fix.fixes.whole import Whole, whole
from tests.support import examples

PROGRAMS = programs()
NUMBER = re.compile(r"\b0[xX][\da-fA-F]+|\b\d[\d_]*\b")
WAYS = ("{n}", "units={n}", "UNITS_{i}", "CONFIG['u{i}']", "SIZES[{i}]", "{n} * 1", "{a} + 1", "int(sys.argv[1])")
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@st.composite
def models(draw: st.DrawFn) -> tuple[str, dict[str, bool]]:
    """Draw a file of Dense layers whose sizes are written in different ways, and which of them may be fixed."""
    sizes = draw(st.lists(st.integers(17, 300), min_size=1, max_size=6, unique=True))
    ways = [draw(st.sampled_from(WAYS)).format(n=n, i=i, a=n - 1) for i, n in enumerate(sizes)]
    constants = [f"UNITS_{i} = {n}\n" for i, n in enumerate(sizes) if f"UNITS_{i}" in ways]
    config = ", ".join(f"'u{i}': {n}" for i, n in enumerate(sizes) if "CONFIG" in ways[i])
    listed = ", ".join(str(n) if "SIZES" in way else "0" for n, way in zip(sizes, ways, strict=True))
    layers = "".join(f"    layers.Dense({way}),\n" for way in ways)
    text = (
        "import sys\nimport keras\nfrom keras import layers\n"
        f"{''.join(constants)}CONFIG = {{{config}}}\nSIZES = [{listed}]\n"
        f"model = keras.Sequential([\n    keras.Input((8,)),\n{layers}    layers.Dense(8),\n])\n"
    )
    literal = [re.fullmatch(r"(units=)?\d+|UNITS_\d", way) is not None for way in ways]
    return text, {f"dense_{i}" if i else "dense": plain for i, plain in enumerate(literal)}


@given(models())
@settings(max_examples=examples(30), deadline=None)
def test_a_number_or_a_name_is_fixed_and_nothing_else(made: tuple[str, dict[str, bool]]) -> None:
    text, literal = made
    before = whole(text)
    check(before)
    fixed = {f.layer: f.suggested for f in before.findings if f.fix is not None}
    wanted = [f for f in before.findings if f.code == "TC101" and f.dimension == "units"]
    known = literal if "argv" not in text else dict.fromkeys(literal, False)
    assert all(f.layer in fixed for f in wanted if known[str(f.layer)] and f.severity != "note")
    assert all(literal[str(layer)] for layer in fixed)
    for old, new in zip(before.models[0].layers, whole(before.mended).models[0].layers, strict=True):
        assert new.config["units"] == fixed.get(old.name, old.config["units"])


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_as_they_are(name: str) -> None:
    check(whole(PROGRAMS[name]))


@given(st.sampled_from(sorted(PROGRAMS)), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=examples(30), suppress_health_check=SLOW)
def test_programs_changed_by_chance(name: str, chance: random.Random) -> None:
    before = whole(mutated(PROGRAMS[name], chance))
    check(before)
    check_with_libcst(before)


def check(before: Whole) -> None:
    """See that a fixed program is the same but for the numbers asked for, and that there is nothing left to fix."""
    after = whole(before.mended)
    assert NUMBER.sub("0", before.mended) == NUMBER.sub("0", before.text)
    assert after.mended == before.mended, "a second time changes something"
    # The step is shorter now: what was a note may be a warning, but nothing is found that was not there.
    assert after.sizes() <= before.sizes()
    fixed = {(f.code, f.layer, f.dimension) for f in before.findings if f.fix is not None}
    assert not after.sizes("error", "warning") & fixed
    changed = {(e.before, e.after) for f in before.findings if f.fix for e in f.fix.edits}
    numbers = zip(NUMBER.findall(before.text), NUMBER.findall(before.mended), strict=True)
    assert {pair for pair in numbers if pair[0] != pair[1]} <= changed
    layers, mended = ([x for m in w.models for x in m.layers] for w in (before, after))
    for old, new in zip(layers, mended, strict=True):
        different = {k for k in old.config if old.config[k] != new.config[k]}
        assert (old.name, old.kind) == (new.name, new.kind)
        assert different <= {"units", "filters", "output_dim", "key_dim", "value_dim", "head_dim"}


def check_with_libcst(audited: Whole) -> None:
    """See that what libcst reads before and after, every space and comment, differs in the edited numbers alone."""
    cst = pytest.importorskip("libcst", reason="libcst is not installed")
    one, two = (list(parts(cst.parse_module(text))) for text in (audited.text, audited.mended))
    edits = {(e.place, e.before, e.after) for f in audited.findings if f.fix for e in f.fix.edits}
    different = [(a, b) for a, b in zip(one, two, strict=True) if a != b]
    assert {kind for pair in different for kind, *_ in pair} <= {"Integer"}
    assert sorted((a[1], b[1]) for a, b in different) == sorted((before, after) for _, before, after in edits)


def parts(node: Any) -> Iterator[tuple[str, ...]]:
    """Yield what a tree holds, in order: the kind of each node, and its texts, spaces and comments included."""
    yield (type(node).__name__, *(v for f in node.__dataclass_fields__ if isinstance(v := getattr(node, f), str)))
    for child in node.children:
        yield from parts(child)
