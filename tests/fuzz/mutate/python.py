"""Change Python: its tokens, its lines, and whole statements."""

from __future__ import annotations

import io
import tokenize

from tests.audit.fix.fixes.mutate import mutated as other_program
from tests.fuzz.mutate.chance import Chance, encoded

PIECES = (
    "(", ")", "[", "]", ":", "=", ",", "\n", "    ", "if x:", "for f in (1, 2):", "*", "**", "lambda: 0", "self",
    "layers", "Dense(3)", "x", "0", "-1", "''", "return", "[i for i in x]", "del x", "global x", "None", "yield",
    "await x", "async def f(): pass", "match x:\n    case 1: pass", "class A(A): pass", "from .. import *",
    "import os", "@x", "x := 1", "f'{x!r:{y}}'", "...", "while True:", "try:", "except* E:", "with x as y:",
    "nonlocal x", "\\", ";", "\f", "# tcprobe: ignore", "# tcprobe: ignore[TC101]", "# noqa", '"""', "0x", "1_",
    "1e999", "0b2", "1j", "é", "\u202e", "\x1b[2J", "\0", "\ufeff",
)  # fmt: skip
VALUES = (
    "9 ** 9 ** 9 ** 9", "'a' * 10 ** 9", "(1,) * 10 ** 12", "1 << 10 ** 9", "'%999999999d' % 1", "range(10 ** 12)",
    "sum(range(10 ** 9))", "[0] * 10 ** 10", "10 ** 400", "-10 ** 18", "1e308 * 10", "float('nan')", "0.0", "True",
    "None", "[]", "{}", "x", "Dense", "x[x]", "len(x)", "max([])", "divmod(1, 0)", "1 // 0", "2.5", "'64'", "(64,)",
    "[64] * 64", "*x", "**x", "lambda y=x: x(y)", "f'{64:>999999999}'", "[f() for _ in range(50)]", "{**x, 'a': 1}",
    "int('9' * 5000)", "str(x)", "x.y.z", "type(x)", "open('/etc/passwd')", "__import__('os')", "bytes(10 ** 10)",
    "'{:>9999999999}'.format(1)", "'x'.center(10 ** 10)", "list(range(10 ** 9))", "dict.fromkeys(range(10 ** 8))",
    "tuple(x for x in range(10 ** 9))", "np.zeros((10 ** 6, 10 ** 6))", "[[0] * 10 ** 5] * 10 ** 5",
    "int.from_bytes(b'9' * 10 ** 4, 'big')", "'a'.replace('', 'b' * 10 ** 8)", "2 ** 63",
)  # fmt: skip
"""Values that cost much to compute, or are of another kind than a size."""
DEEP = (
    ("x = ", "(", "1", ")"), ("x = ", "[", "1", "]"), ("x = ", "-", "1", ""), ("x = ", "1+", "1", ""),
    ("x", ".y", "", ""), ("f", "()", "", ""), ("x", "[0]", "", ""), ("x = ", "not ", "1", ""),
    ("x = ", "lambda: ", "1", ""), ("x = ", "1 if x else ", "1", ""), ("x = ", "f(", "1", ")"),
    ("x = ", "{1: ", "1", "}"), ("", "x = ", "1", ""), ("", "f(x)\n", "", ""), ("", "x = x + 1\n", "", ""),
    ("if x: pass\n", "elif x: pass\n", "", ""), ("x = '", "a", "", "'"),
)  # fmt: skip


def mutated(content: bytes, chance: Chance) -> bytes:
    """Return another program, or what is none."""
    text = content.decode("utf-8", "replace")
    kind = chance.random()
    if kind < 0.35:
        return encoded(_other_token(text, chance))
    if kind < 0.6:
        return encoded(_other_statements(text, chance))
    if kind < 0.9:
        return encoded(_other_lines(text, chance))
    return encoded(_with_depth(text, chance))


def _other_statements(text: str, chance: Chance) -> str:
    try:
        return other_program(text, chance)
    except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError, tokenize.TokenError):
        return _other_lines(text, chance)


def _other_token(text: str, chance: Chance) -> str:
    """Replace a number, name or text by a hostile one."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):
        return _other_lines(text, chance)
    wanted = chance.choice((tokenize.NUMBER, tokenize.NUMBER, tokenize.STRING, tokenize.NAME, tokenize.OP))
    some = [t for t in tokens if t.type == wanted and t.start[0] == t.end[0]]
    if not some:
        return _other_lines(text, chance)
    token, lines = chance.choice(some), text.splitlines(keepends=True)
    row, start, end = token.start[0] - 1, token.start[1], token.end[1]
    lines[row] = lines[row][:start] + _instead(wanted, chance) + lines[row][end:]
    return "".join(lines)


def _instead(kind: int, chance: Chance) -> str:
    if kind == tokenize.STRING:
        return repr(chance.text()) if chance.random() < 0.8 else chance.choice(VALUES)
    if kind == tokenize.OP:
        return chance.choice(PIECES)
    if chance.random() < 0.7:
        return f"({chance.choice(VALUES)})"
    return str(chance.number()) if chance.random() < 0.8 else "9" * chance.choice((300, 4300, 5000))


def _other_lines(text: str, chance: Chance) -> str:
    lines = text.splitlines(keepends=True) or ["\n"]
    at, kind = chance.randrange(len(lines)), chance.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at:at] = [lines[at]] * min(chance.times(), 60)
    elif kind == 2:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        words = lines[at].split(" ")
        words[chance.randrange(len(words))] = chance.choice(PIECES)
        lines[at] = " ".join(words)
    else:
        indent = len(lines[at]) - len(lines[at].lstrip())
        value = chance.choice(VALUES) if chance.random() < 0.7 else repr(chance.text())
        lines.insert(at, " " * indent + f"{chance.choice(('x', 'y', 'size', 'self.x'))} = {value}\n")
    return "".join(lines)


def _with_depth(text: str, chance: Chance) -> str:
    head, start, middle, end = chance.choice(DEEP)
    times = chance.choice((30, 90, 150, 900, 3000, *([30_000] if chance.scale > 1 else [])))
    deep = head + start * times + middle + end * times + "\n"
    lines = text.splitlines(keepends=True)
    at = chance.choice([n for n, line in enumerate(lines) if not line.startswith((" ", "\t", ")"))] or [0])
    return "".join([*lines[:at], deep, *lines[at:]])
