"""`Chance`: random numbers, and texts and numbers that break what reads them."""

from __future__ import annotations

import random
from typing import Final

TEXTS: Final = (
    "", " ", "\t", "\n", "\r\n", "\0", "\x1b[2J\x1b]0;owned\x07", "\x1b[31mred", "\x9b31m", "\u202eevil\u202c",
    "a\u200bb", "\u2028", "\ufeff", "\ud800", "\udcff", "\U0010ffff", "e\u0301" * 40, "\u0660\u0661", "\xb2",
    "=cmd|' /C calc'!A0", "@SUM(1+1)", "+1", "-1", "--", "nan", "inf", "-inf", "NaN", "1e999", "-1e999", "1e-999",
    "0x10", "1_000", "1,000", "None", "null", "true", "NA", "%s%n", "{0}", "{x!r}", "../../../etc/passwd",
    "/dev/zero", "C:\\x", "a" * 300, "[" * 40, "<b>|x|`y`</b>", "| a | b |", "::error file=x::y",
    "##[error]x", "##vso[task.complete]", "$$x$$", "\\", '"', "'", ",",
    ";", "::", ":", "/", "//", "a/", "/a", "(", ")", "<", ">", "<<>>", "a:b:c", "x" * 5000, "\xe9", "\u4e2d\u6587",
    "__class__", "__inference_f_1", "Conv2D", "MatMul", "float16", "half", "f32[2,3]{1,0}", "gemm", "sgemm", "hmma",
    "winograd", "transpose(jvp(f))/dot_general",
)  # fmt: skip
"""Texts for any field: control and formatting characters, formulas, numbers that are none, markup, words that count."""
NUMBERS: Final = (
    *(0, 1, -1, 2, 3, 7, 8, 127, 128, 255, 256, 1000, 65535, 65536, 10**6, 2**31 - 1, 2**31, 2**32, 10**12, 2**53),
    *(2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63), 10**19, 10**30, 10**400),
)
NESTED: Final = (
    ("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"), ("jvp(", ")"), ("transpose(", ")"), ("a<", ">"), ("a/", ""),
    ("a::", ""), ("f(", ")"), ("while/body/", ""), ("(", ""), ("", ")"), ("<", ""), ("[", ""), ("{", ""), ("a(", ""),
    (" ", ""), ("\\", ""), ('"', ""), ("0", ""), ("9", ""), ("_", ""), ("-", ""), ("a_", ""), ("1,", ""), ("a,", ""),
    ("regs:1 ", ""), ("64x", ""), ("16", "x"), ("\u200b", ""), ("\n", ""), ("/", ""),
)  # fmt: skip
"""What patterns and recursions choke on when it is repeated."""
LONG_SCALE: Final = 100


class Chance(random.Random):
    """A source of randomness; with `scale` above 1 it makes texts that many times as long."""

    def __init__(self, seed: str, scale: int = 1) -> None:
        super().__init__(seed)
        self.scale = scale

    def times(self) -> int:
        """Return how often to repeat something: mostly a few times, at times thousands."""
        if self.scale > 1 and self.random() < 0.2:
            return self.choice((10_000, 100, 1000)) * self.scale // 10
        return self.randint(1, 40) if self.random() < 0.8 else self.choice((100, 300, 1000, 3000, 10_000))

    def text(self) -> str:
        """Return a hostile text."""
        kind = self.random()
        if kind < 0.55:
            return self.choice(TEXTS)
        if kind < 0.75:
            start, end = self.choice(NESTED)
            times = self.times()
            return start * times + self.choice(("", "x", "1")) + end * times
        if kind < 0.85:
            return str(self.number())
        if kind < 0.88:
            return "9" * self.choice((20, 309, 4300, 5000))
        return self.text() + self.choice(("", " ", "_", "/")) + self.text()

    def number(self) -> int | float:
        """Return a number at the edge of something."""
        if self.random() < 0.15:
            return self.choice((0.5, -0.0, 1e308, -1e308, 5e-324, 1e16, float("nan"), float("inf"), -float("inf")))
        return self.choice(NUMBERS)

    def near(self, text: str) -> str:
        """Return a text with a hostile one in it, or in its place."""
        if not text or self.random() < 0.4:
            return self.text()
        at, to = sorted((self.randrange(len(text) + 1), self.randrange(len(text) + 1)))
        kind = self.random()
        if kind < 0.3:
            return text[:at] + self.text() + text[at:]
        if kind < 0.5:
            return text[:at] + text[to:]
        if kind < 0.65:
            return text[:at] + text[at:to] * min(self.times(), 10_000 * self.scale // max(1, to - at)) + text[to:]
        return text[:at] + self.text() + text[to:]


def encoded(text: str) -> bytes:
    """Return a text as UTF-8, lone surrogates as they are."""
    return text.encode("utf-8", "surrogatepass")
