"""Fixes of models made up by chance: whole, certain, and made once and for all."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.audit.fix.fixes import with_fixes
from tcprobe.audit.fix.source.text import apply
from tcprobe.audit.source.read import parse_source, read_model
from tests.audit.fix.fixes.reading import chain, findings_of, fixed, step_of
from tests.audit.fix.test_fixes import GOLDEN, PRESETS, pair
from tests.support import examples

WAYS = ("{n}", "units={n}", "UNITS_{i}", "CONFIG['u{i}']", "SIZES[{i}]", "{n} * 1", "{a} + 1", "int(sys.argv[1])")


@st.composite
def models(draw: st.DrawFn) -> tuple[str, list[int]]:
    """Draw a file of Dense layers whose sizes are written in different ways, and the sizes."""
    sizes = draw(st.lists(st.integers(17, 300), min_size=1, max_size=6))
    ways = [draw(st.sampled_from(WAYS)).format(n=n, i=i, a=n - 1) for i, n in enumerate(sizes)]
    constants = [f"UNITS_{i} = {n}\n" for i, n in enumerate(sizes) if f"UNITS_{i}" in ways]
    config = ", ".join(f"'u{i}': {n}" for i, n in enumerate(sizes))
    layers = ",\n".join(f"    layers.Dense({way})" for way in ways)
    text = (
        "import sys\nimport keras\nfrom keras import layers\n"
        f"{''.join(constants)}CONFIG = {{{config}}}\nSIZES = [{', '.join(map(str, sizes))}]\n"
        f"model = keras.Sequential([\n    keras.Input((64,)),\n{layers},\n    layers.Dense(8),\n])\n"
    )
    return text, sizes


@given(models())
@settings(max_examples=examples(30))
def test_fixes_are_certain_and_final(made: tuple[str, list[int]]) -> None:
    text, _ = made
    findings = fixed(text)
    source = parse_source(text, "/model.py")
    after = apply(findings, {"/model.py": source}).get("/model.py", text)
    assert re.sub(r"\d+", "0", after) == re.sub(r"\d+", "0", text)
    expected = {f.layer: f.suggested for f in findings if f.fix is not None}
    before, model = chain(source), chain(parse_source(after, "/model.py"))
    for old, new in zip(before.layers, model.layers, strict=True):
        assert new.config["units"] == expected.get(old.name, old.config["units"])
    assert [f for f in fixed(after) if f.fix is not None] == []
    for f in findings:
        plain = re.search(r"[+]|argv", parse_source(text, "/m.py").segment(f.place)) if f.place else None
        assert (f.fix is None) == (plain is not None)


def test_golden_pairs_as_source_mode_reads_them() -> None:
    """The model that source mode makes of a file gives the same fixes as the one of these tests."""
    for name in GOLDEN:
        before, after = pair(name)
        source = parse_source(before, "/model.py")
        found = []
        for model in read_model(source, 4096):
            step = step_of(model)
            found += with_fixes(findings_of(model, step), model, step, {"/model.py": source})
        mended = apply(found, {"/model.py": source}).get("/model.py", before)
        # which preset runs only the command line knows: nothing is found, and nothing changed
        assert mended == (before if name in PRESETS else after), name
