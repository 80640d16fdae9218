"""Change a JSON document: values, keys, depth, and what Python's parser takes though JSON does not have it."""

from __future__ import annotations

import json
from typing import Any

from tests.fuzz.mutate.chance import Chance, encoded

DEPTHS = (5, 50, 900, 5000)
RAW = "\x00raw:"
"""Begins a text that stands for what `json.dumps` cannot write."""


def mutated(content: bytes, chance: Chance) -> bytes:
    """Return another document; text that is no JSON gets one around it."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        tree = content.decode("utf-8", "replace")
    raw: list[str] = []
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        tree = _changed(tree, chance, raw)
    try:
        text = json.dumps(tree, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, 1)))
    except RecursionError:
        return content
    for number, piece in enumerate(raw):
        text = text.replace(json.dumps(f"{RAW}{number}"), piece).replace(f"{RAW}{number}", "raw")
    return encoded(text)


def _changed(tree: Any, chance: Chance, raw: list[str]) -> Any:
    """Change one place of the tree: go down by chance, then change what is there."""
    if isinstance(tree, dict) and tree and chance.random() < 0.93:
        key = chance.choice(list(tree))
        return _changed_member(dict(tree), key, chance, raw)
    if isinstance(tree, list) and tree and chance.random() < 0.93:
        at = chance.randrange(len(tree))
        kind = chance.random()
        if kind < 0.06:
            return [*tree[:at], *tree[at + 1 :]]
        if kind < 0.12:
            return [*tree[:at], *([tree[at]] * min(chance.times(), 60)), *tree[at:]]
        return [*tree[:at], _changed(tree[at], chance, raw), *tree[at + 1 :]]
    return _value(tree, chance, raw)


def _changed_member(tree: dict[str, Any], key: str, chance: Chance, raw: list[str]) -> dict[str, Any]:
    kind = chance.random()
    if kind < 0.06:
        del tree[key]
    elif kind < 0.1:
        tree[chance.text()] = tree.pop(key)
    elif kind < 0.14:
        tree[key] = tree[chance.choice(list(tree))]
    else:
        tree[key] = _changed(tree[key], chance, raw)
    return tree


def _value(old: Any, chance: Chance, raw: list[str]) -> Any:
    kind = chance.random()
    if kind < 0.35 and isinstance(old, str):
        return chance.near(old)
    if kind < 0.35 and isinstance(old, int | float):
        return chance.number() if chance.random() < 0.7 else old - 1
    if kind < 0.5:
        return chance.text()
    if kind < 0.7:
        return chance.number()
    if kind < 0.85:
        return chance.choice((None, True, False, [], {}, [None], [[]], {"": None}, [old], {"name": old}, [old] * 9))
    depth = chance.choice(DEPTHS)
    raw.append(
        chance.choice(
            (
                "[" * depth + "]" * depth,
                '{"a":' * depth + "1" + "}" * depth,
                "9" * 5000,
                "-" + "9" * 400,
                "1e999",
                "-0",
                "NaN",
            )
        )
    )
    return f"{RAW}{len(raw) - 1}"
