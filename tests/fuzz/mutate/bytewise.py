"""Change bytes without knowing what they mean: cut, flip, insert, move, repeat, put in words that files hold."""

from __future__ import annotations

from tests.fuzz.mutate.chance import Chance, encoded

WORDS = (
    b'"', b",", b"\n", b"\r\n", b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\x80", b"\xff" * 10, b"\x80" * 20,
    b"{", b"}", b"[", b"]", b":", b"-", b"9" * 400, b"/device:GPU:0", b"/host:CPU", b"kernel_details", b"Kernel Name",
    b"NaN", b"Infinity", b"null", b"\\u0000", b"\\ud800", b"All Kernels", b"%", b"\x08\x96\x01", b"\x12\x07",
    b"\x0a\x00", b"#", b"'''", b"\\N{", b"\t", b"\x0c", b"# -*- coding: utf-7 -*-\n",
)  # fmt: skip


def mutated(content: bytes, chance: Chance) -> bytes:
    """Return other bytes."""
    at, to = sorted((chance.randrange(len(content) + 1), chance.randrange(len(content) + 1)))
    kind = chance.randrange(9)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + content[min(to, at + 40) :]
    if kind == 2 and content:
        return b"".join((content[: at - 1], bytes([content[at - 1] ^ 1 << chance.randrange(8)]), content[at:]))
    if kind == 3:
        return content[:at] + chance.choice(WORDS) + content[at:]
    if kind == 4:
        return content[:at] + chance.choice(WORDS) + content[at + chance.randint(0, 4) :]
    if kind == 5:
        return content[:at] + content[at : at + 200] * min(chance.times(), 200) + content[at:]
    if kind == 6:
        other = chance.randrange(len(content) + 1)
        return content[:at] + content[other : other + 100] + content[to:]
    if kind == 7:
        return content[:at] + encoded(chance.text()) + content[at:]
    return content[:at] + chance.randbytes(chance.randint(1, 8)) + content[at + chance.randint(0, 8) :]
