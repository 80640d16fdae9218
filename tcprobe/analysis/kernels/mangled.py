"""Turn a mangled C++ name (Itanium ABI) into readable text, as far as words and types of kernels need it.

Pointers, references and const are left out, and of the substitutions only the first is resolved: it stands for the
outermost scope.
"""

from __future__ import annotations

import re
from typing import Final

_BUILTIN: Final = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "f": "float", "d": "double", "e": "long double", "w": "wchar_t", "z": "...",
    "DF16_": "_Float16", "DF16b": "std::bfloat16_t", "Dh": "half", "Dn": "std::nullptr_t", "Da": "auto",
    "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "St": "std",
}  # fmt: skip
_TOKEN: Final = re.compile(
    r"""
    (?P<length> \d+ )                                  # <length> <identifier>
    | L (?P<type> [a-z] ) (?P<value> n?\d*+ ) E        # literal of a built-in type
    | (?P<builtin> DF16[_b] | D[hna] | S[abst] )
    | (?P<first> S_ )                                  # the first substitution
    | (?P<other> S[0-9A-Z]{1,12}_ | T[0-9]{0,12}_ )    # a later one, or a template parameter
    | (?P<open> [NIJXFL] | Ul )
    | (?P<close> E (?: (?<=E) (?P<lambda> \d*+_ ) )? )
    | (?P<prefix> [PROKVGM] | Dp | DT | Dt | Dv\d++_ | A\d*+_ )
    | (?P<letter> [a-z] )
    """,
    re.VERBOSE,
)
_LONGEST_SCOPE: Final = 256  # characters of a scope that substitutions repeat; more of one stays S_
_FRAMES: Final = {"N": ("", "::", ""), "I": ("<", ", ", ">"), "Ul": ("{lambda(", ", ", ")}")}
_PLAIN: Final = ("", ", ", "")


def readable(text: str) -> str:
    """Return `scope::function<arguments>(parameters)` of a mangled name; what cannot be decoded is left out.

    Args:
        text: begins with _Z; it may be cut off anywhere.
    """
    reader = _Reader()
    at = 2
    while at < len(text) and text[at] != ".":
        found = _TOKEN.match(text, at)
        at = reader.take(found, text) if found else at + 1
    return reader.finish(text[at:])


class _Reader:
    """Writes what it reads, one frame for each bracket that is open."""

    def __init__(self) -> None:
        self.out: list[str] = []
        # kind, and how many items it holds already; the outermost holds the name, then its types
        self.frames: list[tuple[str, int]] = [("", 0)]
        self.outermost = ""
        self.templated = False
        self.result_at: int | None = None

    def take(self, found: re.Match[str], text: str) -> int:
        """Write one token; return where the next begins."""
        kind = found.lastgroup or ""
        if kind == "length":
            end = found.end() + int(found[0][:6])
            self._name(text[found.end() : end])
            return end
        if kind == "value":
            self._item(found["value"].replace("n", "-"))
        elif kind in ("builtin", "other"):
            self._item(_BUILTIN.get(found[0], "_"))
        elif kind == "first":
            self._item(self.outermost or "S_")
        elif kind == "open":
            self._open(found[0])
        elif kind in ("close", "lambda"):
            return self._close(found)
        elif kind == "letter" and self.frames[-1][0] not in ("N", "X"):
            self._item(_BUILTIN.get(found[0], ""))
        return found.end()

    def finish(self, rest: str) -> str:
        """Close what is open and return the text; an ellipsis with what follows it is kept as it is."""
        if rest.startswith("..."):
            self._item(rest)
        while len(self.frames) > 1:
            self.out.append(_FRAMES.get(self.frames.pop()[0], _PLAIN)[2])
        self._drop_result()
        return "".join(self.out) + (")" if self.frames[0][1] > 1 else "")

    def _name(self, name: str) -> None:
        self.outermost = self.outermost or (name if len(name) <= _LONGEST_SCOPE else "S_")
        self._item("(anonymous namespace)" if name.startswith("_GLOBAL__N_") else name)

    def _item(self, text: str) -> None:
        kind, count = self.frames[-1]
        if len(self.frames) == 1 and count:
            self._type()
        elif count:
            self.out.append("::" if self.out and self.out[-1] == "std" else _FRAMES.get(kind, _PLAIN)[1])
        self.frames[-1] = kind, self.frames[-1][1] + 1
        self.out.append(text)

    def _type(self) -> None:
        """Begin a type behind the name: the result of a template, which is dropped, or a parameter."""
        kind, count = self.frames[0]
        if self.templated and self.result_at is None:
            self.result_at = len(self.out)
            self.frames[0] = kind, count - 1
            return
        self._drop_result()
        self.out.append("(" if count == 1 else ", ")

    def _drop_result(self) -> None:
        if self.result_at is not None and self.result_at >= 0:
            del self.out[self.result_at :]
            self.result_at = -1

    def _open(self, kind: str) -> None:
        if kind == "I":
            self.templated = self.templated or len(self.frames) == 1
        else:
            self._item("")
        self.out.append(_FRAMES.get(kind, _PLAIN)[0])
        self.frames.append((kind, 0))

    def _close(self, found: re.Match[str]) -> int:
        if len(self.frames) == 1:
            return found.end()
        kind, _ = self.frames.pop()
        self.out.append(_FRAMES.get(kind, _PLAIN)[2])
        if kind == "N" and len(self.frames) == 1 and self.frames[0][1] == 1:
            self.templated = self.templated or "".join(self.out[-3:]).endswith(">")
        return found.end() if kind == "Ul" else found.start() + 1
