"""Make random variants of programs that build models: other sizes, other code around them."""

from __future__ import annotations

import ast
import io
import random
import tokenize
from pathlib import Path

from tests.support import ROOT

FOLDER = Path(__file__).parent
SIZES = ("7", "16", "31", "63", "64", "100", "126", "255", "510", "1022", "0x3f", "1_022", "2047")
AROUND = (
    "if {n} > 3:",
    "for _ in range(2):",
    "try:",
    "while True:",
    "with open('x') as f:",
    "def made_{n}(x=63, {a}=63):",
    "class Made{n}:",
    "if DEBUG:",
)
EXTRA = (
    "print({a})",
    "size = 63",
    "extra = [{n}] * 63",
    "import os",
    "x = y + {a}",
    "{a} = 63",
    "{a} = {a}",
    "def other(x):\n    return layers.Dense(63)(x)",
    "other = layers.Dense({n})",
    "z = [layers.Dense(n) for n in (31, {n})]",
)


def programs() -> dict[str, str]:
    """Return the programs that are changed, by name: of the golden pairs, the styles and the GANs."""
    found = sorted([*FOLDER.glob("*.before"), *FOLDER.glob("*_bad.py"), *(ROOT / "tests" / "styles").glob("*.py")])
    return {path.name: path.read_text(encoding="utf-8") for path in found}


def mutated(text: str, chance: random.Random) -> str:
    """Return a program with other numbers and statements; the same where the changes make it no program."""
    for _ in range(chance.randint(0, 4)):
        change = chance.choice((_resized, _resized, _resized, _wrapped, _doubled, _dropped, _extended))
        made = change(text, chance)
        try:
            ast.parse(made)
        except SyntaxError:
            continue
        text = made
    return text


def _resized(text: str, chance: random.Random) -> str:
    """Make one number, or all that are equal to it, another size."""
    numbers = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NUMBER]
    whole = [t for t in numbers if t.string.isdigit() and int(t.string) > 4]
    if not whole:
        return text
    chosen, size = chance.choice(whole), chance.choice(SIZES)
    every = chance.random() < 0.5
    lines = text.splitlines(keepends=True)
    for token in reversed(whole):
        if token is chosen or (every and token.string == chosen.string):
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + size + lines[row - 1][column + len(token.string) :]
    return "".join(lines)


def _statements(text: str) -> list[tuple[int, int, int]]:
    """Return first and last line and indentation of every statement."""
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)]
    return [(n.lineno, n.end_lineno or n.lineno, n.col_offset) for n in nodes]


def _name(text: str, chance: random.Random) -> str:
    names = sorted({n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)})
    return chance.choice(names) if names else "x"


def _wrapped(text: str, chance: random.Random) -> str:
    start, end, indent = chance.choice(_statements(text))
    lines = text.splitlines(keepends=True)
    head = " " * indent + chance.choice(AROUND).format(n=chance.randint(1, 99), a=_name(text, chance)) + "\n"
    body = ["    " + line if line.strip() else line for line in lines[start - 1 : end]]
    tail = [" " * indent + "except ValueError:\n", " " * indent + "    pass\n"] if "try:" in head else []
    tail = [" " * indent + "    break\n"] if "while" in head else tail
    return "".join([*lines[: start - 1], head, *body, *tail, *lines[end:]])


def _doubled(text: str, chance: random.Random) -> str:
    start, end, _ = chance.choice(_statements(text))
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:end], *lines[start - 1 : end], *lines[end:]])


def _dropped(text: str, chance: random.Random) -> str:
    start, end, _ = chance.choice(_statements(text))
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: start - 1], *lines[end:]])


def _extended(text: str, chance: random.Random) -> str:
    start, _, indent = chance.choice(_statements(text))
    lines = text.splitlines(keepends=True)
    extra = chance.choice(EXTRA).format(n=chance.randint(1, 99), a=_name(text, chance))
    added = [" " * indent + line + "\n" for line in extra.splitlines()]
    return "".join([*lines[: start - 1], *added, *lines[start - 1 :]])
