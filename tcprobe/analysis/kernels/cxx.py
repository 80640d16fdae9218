"""Read the name of a kernel as C++: result type, scopes, function, template arguments, parameters.

Turn a mangled C++ name (Itanium ABI) into readable text, as far as words and types of kernels need it.

Pointers, references and const are left out, and of the substitutions only the first is resolved: it stands for the
outermost scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

_BUILTIN: Final = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "f": "float", "d": "double", "e": "long double", "w": "wchar_t", "z": "...",
    "DF16_": "_Float16", "DF16b": "std::bfloat16_t", "Dh": "half", "Dn": "std::nullptr_t", "Da": "auto",
    "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "St": "std",
}  # fmt: skip
_MANGLED: Final = re.compile(
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
        found = _MANGLED.match(text, at)
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


# brackets, and what is none of them though it looks so: operator<, operator(), ->
_TOKEN: Final = re.compile(r"(?<!\w)operator\s*(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|[<>]=?)|->|[<>(){}\[\]]")
_COMMA: Final = re.compile(_TOKEN.pattern + "|,")
_CLOSES: Final = {">": "<", ")": "(", "}": "{", "]": "["}
_OPERATOR: Final = re.compile(r"(?<!\w)operator(?!\w)")
# a result type whose conditions may hold comparisons, printed without parentheses
_ENABLED: Final = re.compile(r"(?:typename )?(?:\w++::)*enable_if<.*?>::type (?=[\w({<:])", re.DOTALL)
# what may stand behind parameters: nothing, const, [clone .kd]
_FOLLOWS: Final = ("", " ", "[", ".")
_HIDDEN: Final = "\x00"


class KernelName(Struct, frozen=True):
    """The parts of a kernel's name, as they are written in it.

    `str` puts them together again: the text itself, with brackets closed that a cut left open and without blanks
    between a name and its brackets.
    """

    result: str | None  # type that stands before the name; None where none does
    # namespaces, classes and functions that hold the function, outermost first, with their own arguments
    scopes: tuple[str, ...]
    function: str  # its own name; empty where the text has none
    arguments: str | None  # what stands between the angle brackets of the function; None without them
    parameters: str | None  # what stands between its parentheses; None without them
    suffix: str  # what follows: const, [clone .kd]

    def __str__(self) -> str:
        result = "" if self.result is None else f"{self.result} "
        arguments = "" if self.arguments is None else f"<{self.arguments}>"
        parameters = "" if self.parameters is None else f"({self.parameters})"
        return f"{result}{self.path}{arguments}{parameters}{self.suffix}"

    @property
    def path(self) -> str:
        """Scopes and function, joined by ::."""
        return "::".join((*self.scopes, self.function))


def parse(text: str) -> KernelName:
    """Return the parts of a kernel's name; any text has some, a plain identifier its function alone.

    Args:
        text: demangled, or mangled (`_Z...`): then as far as `readable` decodes it; it may be cut off anywhere.
    """
    if text.startswith("_Z"):
        text = readable(text)
    behind = 0
    while enabled := _ENABLED.match(text, behind):
        behind = enabled.end()
    groups = list(_groups(text, behind))
    called = _called(text, groups)
    head = text[: called.start if called else _end(text, groups)].rstrip()
    suffix = text[called.end if called else len(head) :]
    start, cuts = _cuts(head, groups, behind)
    result = head[: start - 1] if start else None
    *scopes, function = (head[a:b] for a, b in zip([start, *(c + 2 for c in cuts)], [*cuts, len(head)], strict=True))
    begins = len(head) - len(function)
    own = next((g for g in groups if begins < g.start and g.end == len(head) and text[g.start] == "<"), None)
    if own:
        function = head[begins : own.start].rstrip()
    parameters, arguments = (group and group.inside(text) for group in (called, own))
    return KernelName(result, tuple(scopes), function, arguments, parameters, suffix)


def split_list(text: str) -> list[str]:
    """Split template arguments or parameters at the commas that stand in no bracket."""
    stack = _Stack()
    commas = [-1]
    for found in _COMMA.finditer(text):
        if found[0] == ",":
            if not stack.depth:
                commas.append(found.start())
        elif len(found[0]) == 1:
            stack.take(found[0])
    return [text[a + 1 : b].strip() for a, b in zip(commas, [*commas[1:], len(text)], strict=True)]


class _Stack:
    """Open brackets, innermost last. An angle bracket may be a comparison, so that others close over it."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.count = dict.fromkeys(_CLOSES.values(), 0)

    @property
    def depth(self) -> int:
        return len(self.open)

    def take(self, bracket: str) -> None:
        """Open or close; a bracket that closes nothing is ignored."""
        opener = _CLOSES.get(bracket)
        if opener is None:
            self.open.append(bracket)
            self.count[bracket] += 1
        elif opener == "<":
            if self.open and self.open[-1] == "<":
                self._drop()
        elif self.count[opener]:
            while self._drop() != opener:
                pass

    def _drop(self) -> str:
        bracket = self.open.pop()
        self.count[bracket] -= 1
        return bracket


class _Group(NamedTuple):
    """A bracket that stands in no other."""

    start: int  # place of the bracket that opens
    end: int  # place behind the one that closes, or where the text was cut off
    closed: bool  # whether it is not cut off

    def inside(self, text: str) -> str:
        return text[self.start + 1 : self.end - self.closed]


def _groups(text: str, behind: int) -> Iterator[_Group]:
    """Yield every bracket that stands in no other, from a place on."""
    stack, start = _Stack(), 0
    for found in _TOKEN.finditer(text, behind):
        if len(found[0]) > 1:
            continue
        outside = not stack.depth
        stack.take(found[0])
        if outside:
            start = found.start()
        elif not stack.depth:
            yield _Group(start, found.end(), True)
    if stack.depth:
        yield _Group(start, len(text), False)


def _called(text: str, groups: list[_Group]) -> _Group | None:
    """Return the bracket with the parameters: the first behind a name that is no cast and holds no scope."""
    for group in groups:
        before = text[max(0, group.start - 10) : group.start].rstrip()
        named = before[-1:].isalnum() or before[-1:] in tuple("_>})]'.") or _OPERATOR.search(before)
        last = text[group.end : group.end + 1] in _FOLLOWS
        if text[group.start] == "(" and named and last and not before.endswith("decltype"):
            return group
    return None


def _end(text: str, groups: list[_Group]) -> int:
    """Return where a name without parameters ends: before [clone ...] or with the text."""
    return next((g.start for g in groups if text[g.start] == "[" and text[g.start - 1 : g.start] == " "), len(text))


def _cuts(head: str, groups: list[_Group], behind: int) -> tuple[int, list[int]]:
    """Return where the name begins, at the earliest behind some place, and the places of the :: between its scopes."""
    plain, at = [], 0
    for group in groups:
        plain += [head[at : group.start], _HIDDEN * (min(group.end, len(head)) - group.start)]
        at = group.end
    masked = "".join(plain) + head[at:]
    named = _OPERATOR.search(masked, behind)
    end = named.start() if named else len(masked)
    start = max(masked.rfind(" ", 0, end) + 1, behind)
    return start, [found.start() for found in re.finditer("::", masked[:end]) if found.start() >= start]
