"""Fixes seen by libcst, which knows nothing of them: what it reads before and after differs in what was asked alone.

Fixes are edits of text at exact places, proved by parsing again with Python's own parser. libcst keeps every space
and comment in its tree, so it is a witness of its own that nothing else changed, and that a fix made on its tree
comes out as the same text.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tcprobe.schema.finding import Edit, Finding
from tests.audit.fix.fixes.mutate import mutated, programs
from tests.audit.fix.fixes.reading import fixed
from tests.audit.fix.fixes.whole import whole
from tests.support import examples

cst: Any = pytest.importorskip("libcst", reason="libcst is not installed")
metadata: Any = pytest.importorskip("libcst.metadata", reason="libcst is not installed")

FOLDER = Path(__file__).parent / "fixes"
GOLDEN = sorted(path.stem for path in FOLDER.glob("*.before"))
HEADS = [name for name in GOLDEN if name.startswith("head")]
PROGRAMS = programs()


def pair(name: str) -> tuple[str, str]:
    before, after = ((FOLDER / f"{name}.{kind}").read_bytes().decode() for kind in ("before", "after"))
    return before, after


def parts(node: Any) -> Iterator[tuple[str, ...]]:
    """Yield what a tree holds, in order: the kind of each node, and its texts, spaces and comments included."""
    yield (type(node).__name__, *(v for f in node.__dataclass_fields__ if isinstance(v := getattr(node, f), str)))
    for child in node.children:
        yield from parts(child)


def edits_of(findings: list[Finding]) -> list[Edit]:
    return list(dict.fromkeys(e for f in findings if f.fix is not None for e in f.fix.edits))


def remade(text: str, edits: list[Edit]) -> str:
    """Return what libcst makes of a text where the numbers at the places of the edits are replaced in its tree."""
    wanted = {(e.place.line, e.place.column - 1): e for e in edits}

    class Replace(cst.CSTTransformer):  # type: ignore[misc]
        METADATA_DEPENDENCIES = (metadata.PositionProvider,)

        def leave_Integer(self, original_node: Any, updated_node: Any) -> Any:
            start = self.get_metadata(metadata.PositionProvider, original_node).start
            edit = wanted.pop((start.line, start.column), None)
            if edit is None:
                return updated_node
            assert original_node.value == edit.before
            return updated_node.with_changes(value=edit.after)

    made = metadata.MetadataWrapper(cst.parse_module(text)).visit(Replace())
    assert not wanted, "an edit is at no number of the tree"
    return str(made.code)


def differing(before: str, after: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    one, two = (list(parts(cst.parse_module(text))) for text in (before, after))
    return [(a, b) for a, b in zip(one, two, strict=True) if a != b]


@pytest.mark.parametrize("name", [n for n in GOLDEN if n not in HEADS])
def test_only_the_numbers_of_the_edits_differ(name: str) -> None:
    before, after = pair(name)
    edits = edits_of(fixed(before, last=name == "presets"))
    assert remade(before, edits) == after
    found = differing(before, after)
    assert {(a[0], b[0]) for a, b in found} == {("Integer", "Integer")}
    assert sorted((a[1], b[1]) for a, b in found) == sorted((e.before, e.after) for e in edits)


@pytest.mark.parametrize("name", HEADS)
def test_what_a_head_adds_is_added_and_nothing_lost(name: str) -> None:
    """The tree before is the tree after without what was put in: its nodes follow one another in the same order."""
    before, after = (list(parts(cst.parse_module(text))) for text in pair(name))
    numbers = [("Integer", e.before) for e in edits_of(fixed(pair(name)[0])) if e.before]
    spaces = ("SimpleWhitespace", "ParenthesizedWhitespace", "TrailingWhitespace", "EmptyLine", "Newline", "Comma")
    kept = iter(node for node in after)
    for node in before:
        if node[0] not in spaces and node not in numbers and node[0] != "MaybeSentinel":
            assert any(node == other for other in kept), node


@given(st.sampled_from(sorted(PROGRAMS)), st.randoms(use_true_random=False))
@settings(
    deadline=None, max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_programs_changed_by_chance(name: str, chance: random.Random) -> None:
    text = mutated(PROGRAMS[name], chance)
    audited = whole(text)
    edits = edits_of([*audited.findings])
    if all(e.before for e in edits):
        assert remade(text, edits) == audited.mended
        assert {a[0] for a, _ in differing(text, audited.mended)} <= {"Integer"}
    else:
        cst.parse_module(audited.mended)
