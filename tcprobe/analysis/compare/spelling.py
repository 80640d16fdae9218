"""Bring the names of kernels that tools print differently to one spelling, so that two runs can be joined by them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from tcprobe.analysis.kernels.cxx import parse

_CXX: Final = re.compile(r"[<(]|::|^_Z")
_LAMBDA: Final = re.compile(r"\[lambda\(([^()]*)\) \(instance (\d+)\)\]")
_TOKEN: Final = re.compile(r"[A-Za-z_$][\w$]*|\d[\w.]*|::|->|[^\s\w]")
_INTEGER: Final = re.compile(r"^(\d+)(?:[uU][lL]{0,2}|[lL]{1,2})$")
_CAST: Final = re.compile(r"(?<!\w )\( (?:[\w$]++ |:: |[<>,] )+\) (?=(?:- )?\d|true |false )")
_TRUTH: Final = {"true": "1", "false": "0"}
_BUILT_IN: Final = frozenset({"unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool"})
_BEFORE_CONST: Final = frozenset({"<", "(", ","})


def one_spelling(runs: Sequence[Iterable[str]]) -> list[dict[str, str]]:
    """Return for each run what to call each of its kernels: as the first run that has it spells it.

    Of names that are one kernel but for their spelling in one and the same run, each stays its own.
    """
    first: dict[str, str] = {}
    renamings = []
    for names in runs:
        keys = {name: _key(name) if _CXX.search(name) else name for name in sorted(set(names))}
        count = Counter(keys.values())
        renamings.append({name: first.setdefault(key, name) if count[key] == 1 else name for name, key in keys.items()})
    return renamings


def _key(name: str) -> str:
    """Return what of a name tells its kernel; Nsight Systems writes parameters of a template as T1, others by type."""
    parts = parse(name)
    told = f"<{parts.arguments}>" if parts.arguments is not None else f"({parts.parameters or ''})"
    return spelled(f"{parts.path}{told}{parts.suffix}")


def spelled(name: str) -> str:
    """Return the tokens of a C++ name, one blank between two, in one spelling whichever tool printed it.

    Casts of literals (``(int)4``, ``(bool)1``, ``(ns::Kind)0``) go, ``true`` is 1, integers lose their suffix,
    ``const T`` becomes ``T const`` and ``[lambda(int) (instance 1)]`` ``{lambda(int)#1}``. Nothing else is changed:
    names that differ in a type or a number stay apart.
    """
    name = _LAMBDA.sub(r"{lambda(\1)#\2}", name)
    text = _CAST.sub("", "".join(f"{token} " for token in _TOKEN.findall(name)))
    tokens = [_INTEGER.sub(r"\1", _TRUTH.get(token, token)) for token in text.split()]
    for at in range(len(tokens) - 2, -1, -1):  # from the right: a type may hold another
        if tokens[at] == "const" and (at == 0 or tokens[at - 1] in _BEFORE_CONST):
            end = _type_end(tokens, at + 1)
            tokens[at:end] = [*tokens[at + 1 : end], "const"]
    return " ".join(tokens)


def _type_end(tokens: Sequence[str], at: int) -> int:
    """Return where a type ends that begins at a token: behind its words, scopes and template arguments."""
    if tokens[at] in _BUILT_IN:
        while at < len(tokens) and tokens[at] in _BUILT_IN:
            at += 1
        return at
    depth = 0
    for here in range(at, len(tokens)):
        depth += (tokens[here] == "<") - (tokens[here] == ">")
        after = tokens[here + 1] if here + 1 < len(tokens) else ""
        if not depth and tokens[here] != "::" and after not in ("::", "<"):
            return here + 1
    return len(tokens)
