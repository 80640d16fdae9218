"""A late pattern behaves as a compiled one, is compiled once, and every pattern of the package compiles."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tcprobe.patterns import pattern
from tests.support import ROOT


def test_behaves_as_a_compiled_one() -> None:
    late, now = pattern(r"(\d+)-(x)?", re.IGNORECASE), re.compile(r"(\d+)-(x)?", re.IGNORECASE)
    text = "12-X 7-"
    assert late.findall(text) == now.findall(text)
    assert late.sub("_", text) == now.sub("_", text)
    assert [m.span() for m in late.finditer(text)] == [m.span() for m in now.finditer(text)]
    assert (late.search("q") is None, late.match(text)) and late.fullmatch("12-x") is not None
    assert (late.pattern, late.flags, late.groups) == (now.pattern, now.flags, now.groups)
    with pytest.raises(AttributeError):
        _ = late.nothing  # type: ignore[attr-defined]


def test_is_compiled_when_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    compile_ = re.compile

    def counted(text: str, flags: int = 0) -> re.Pattern[str]:
        asked.append(text)
        return compile_(text, flags)

    monkeypatch.setattr(re, "compile", counted)
    late = pattern("a+b")
    assert asked == []
    assert [bool(late.search(text)) for text in ("ab", "b", "aab")] == [True, False, True]
    assert asked == ["a+b"]


def test_every_pattern_of_the_package_compiles() -> None:
    found: list[object] = []
    for path in (ROOT / "tcprobe").rglob("*.py"):
        if "import pattern\n" in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for value in vars(import_module(name)).values():
                found += [v for v in (value.values() if isinstance(value, dict) else [value]) if hasattr(v, "_flags")]
    assert len(found) > 20
    for late in found:
        assert late.pattern == late._text  # type: ignore[attr-defined]
