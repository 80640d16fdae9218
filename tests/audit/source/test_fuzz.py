"""Source that is cut, mutated or absurd: our own errors, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.audit.source.read import parse_source, read_model, read_source
from tcprobe.errors import InputError
from tests.support import ROOT

TEXTS = [
    (ROOT / "workloads/train_gan.py").read_text(encoding="utf-8"),
    *(
        p.read_text(encoding="utf-8")
        for folder in ("scripts", "tutorials")
        for p in sorted((ROOT / "tests/audit/source" / folder).glob("*.py"))
    ),
]
assert len(TEXTS) > 1
PIECES = ["(", ")", "[", "]", ":", "=", ",", "\n", "    ", "if x:", "for f in (1, 2):", "*", "**", "lambda: 0"]
PIECES += ["self", "layers", "Dense(3)", "x", "0", "-1", "''", "return", "[i for i in x]", "del x", "global x", "None"]


def read_all(text: str) -> None:
    """Do all that can be done with a source; only our own errors pass."""
    try:
        source = parse_source(text, "/model.py")
    except InputError:
        return
    assert {call.node for call in source.calls()} <= {*ast.walk(source.tree)}
    for call in (source.call_of(node) for node in ast.walk(source.tree) if isinstance(node, ast.Call)):
        for argument in call.arguments.values():
            assert argument.known is None or source.why_open(argument.node) is None
            for known in source.alternatives(argument.node):
                for use in known.literals:
                    assert source.segment(use.literal.place) == use.literal.text
    read_model(source)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mutated_source_raises_only_our_errors(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(TEXTS)).splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["drop", "double", "swap", "replace"]))
        if kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "double":
            lines.insert(at, lines[at])
        elif kind == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            words = lines[at].split(" ")
            words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.sampled_from(PIECES))
            lines[at] = " ".join(words)
    read_all("".join(lines))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_truncated_source_raises_only_our_errors(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    read_all(text[: data.draw(st.integers(0, len(text)))])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_any_words_raise_only_our_errors(words: list[str]) -> None:
    read_all(" ".join(words))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path: Path = tmp_path_factory.mktemp("bytes") / "model.py"
    path.write_bytes(data)
    try:
        read_model(read_source(path))
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "x = 9 ** 9 ** 9 ** 9",
        "x = 'a' * 10 ** 9",
        "x = (1,) * 10 ** 12",
        "x = 1 << 10 ** 9",
        "x = '%999999999d' % 1",
        "x = range(10 ** 12)",
        "x = sum(range(10 ** 9))",
        "def f(n): return f(n + 1)\nf(0)",
        "class A(A): pass\nA()",
        "x = x + 1\nx = x",
        "a = b\nb = a\nf(a, b)",
        "while True: x = [x]",
        "x = []\nx.append(x)\nprint(x)",
        "for i in range(10 ** 9): pass",
        "def f(): return [f() for _ in range(50)]\nf()",
        "d = {}\nd[d] = d",
        "x = {**x, 'a': 1}",
        "from .. import *\nx",
        "x = lambda y=x: x(y)\nx()",
    ],
)
def test_absurd_programs_end(text: str) -> None:
    read_all(text)


DEEP = [
    "(" * 150 + "1" + ")" * 150,
    "-" * 3000 + "1",
    "x = " + "+".join(["1"] * 5000),
    "x = " + "[" * 90 + "]" * 90,
    "if x: pass\n" + "elif x: pass\n" * 900,
    "x" + ".y" * 3000,
    "f" + "()" * 3000,
    "\n".join(["a0 = 1", *(f"a{i + 1} = a{i} + 1" for i in range(3000)), "f(a3000)"]),
]


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:6])
def test_deep_nesting_is_read_or_refused(text: str) -> None:
    read_all(text)
