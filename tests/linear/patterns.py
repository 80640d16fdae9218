"""The regular expressions of tcprobe, as its modules hold them and as its functions write them."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from msgspec import Struct

import tcprobe

CALLS: Final = frozenset({"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
CONTAINERS: Final = (tuple, list, frozenset, set)


class Found(NamedTuple):
    """One regular expression, and the module that holds it."""

    module: str
    pattern: re.Pattern[str]


def all_patterns() -> tuple[list[Found], list[str]]:
    """Return every pattern of the package once, and the calls whose pattern is known only when they run."""
    held: dict[tuple[str, int], Found] = {}
    open_: list[str] = []
    for name in [m.name for m in pkgutil.walk_packages(tcprobe.__path__, "tcprobe.") if not m.name.endswith("_")]:
        module = importlib.import_module(name)
        inline, unknown = _inline(module)
        open_ += unknown
        for pattern in (*_within(vars(module), 0), *inline):
            held.setdefault((pattern.pattern, pattern.flags), Found(name, pattern))
    return list(held.values()), open_


def _within(value: Any, depth: int) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth <= 4 and isinstance(value, CONTAINERS):
        for one in value:
            yield from _within(one, depth + 1)
    elif depth <= 4 and isinstance(value, dict):
        for name, one in value.items():
            if not str(name).startswith("__"):
                yield from _within(one, depth + 1)
    elif depth <= 4 and isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _within(getattr(value, name), depth + 1)


def _inline(module: ModuleType) -> tuple[list[re.Pattern[str]], list[str]]:
    """Return the patterns of calls such as `re.sub(...)`, and those calls whose pattern only a run knows."""
    found, unknown = [], []
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "import re\n" in text else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            if ast.unparse(node.func.value) != "re":
                continue
            written = next((ast.unparse(a) for a in [*node.args, *(k.value for k in node.keywords)] if _flag(a)), "0")
            try:
                found.append(re.compile(_value(ast.unparse(node.args[0]), module), _value(written, module)))
            except NameError:
                unknown.append(f"{module.__name__}: {ast.unparse(node.args[0])}")
    return found, unknown


def _flag(node: ast.expr) -> bool:
    return ast.unparse(node).startswith("re.")


def _value(text: str, module: ModuleType) -> Any:
    return eval(text, vars(module))
