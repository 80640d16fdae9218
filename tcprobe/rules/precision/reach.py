"""Which of the global policies that files set may hold where: one that a test sets is none of the next one's."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from tcprobe.rules.base import Subject
from tcprobe.rules.precision.policy import Setter, merged_policy, setters, tree_of
from tcprobe.rules.precision.tree import Parents, last_name
from tcprobe.source.scopes import FunctionNode

if TYPE_CHECKING:
    from tcprobe.source.source import Source

Unit: TypeAlias = FunctionNode | ast.Module
Mention: TypeAlias = tuple[ast.AST, str]
_SETS_UP: Final = frozenset({"setUp", "setUpClass", "setUpModule", "setup_method", "setup_class", "setup"})
_TRAINS: Final = frozenset({"fit", "train_on_batch", "apply_gradients", "minimize", "GradientTape"})
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


class Policies:
    """The policies of the files of a subject, each where it may hold.

    A function's policy holds in what runs behind the call that sets it: in the function, in those that it names, and
    in what its callers name behind it. It ends with a test. A function that sets it and trains, and that nothing in
    the files calls, sets it for itself.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._sources = tuple(subject.sources.values())
        self._setters = [(source, setter) for source in self._sources for setter in setters(source)]

    def at(self, source: Source, node: ast.AST) -> str | None:
        """Return the policy under which code runs; None where that is uncertain."""
        model = self._subject.model
        if not self._setters:
            return model.policy
        unit = _unit(tree_of(source), node)
        found = {setter.policy for (_, setter), units in self._reached if units is None or unit in units}
        if model.mode == "traced":
            return model.policy if found & {model.policy, None} else None
        return merged_policy(found) if found else "float32"

    @cached_property
    def _reached(self) -> list[tuple[tuple[Source, Setter], set[Unit] | None]]:
        """What each policy holds in; None for everything."""
        calls = _Calls(self._sources)
        return [(known, _Reach(calls).of(tree_of(known[0]), known[1])) for known in self._setters]


class _Calls:
    """Who names which function of some files: whoever names it may call it."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._trees = [tree_of(source) for source in sources]
        self.mentions: dict[Unit, list[Mention]] = {}
        self.by_name: dict[str, list[FunctionNode]] = {}
        self.names: dict[FunctionNode, tuple[str, ...]] = {}
        self.tree: dict[Unit, Parents] = {}
        for tree in self._trees:
            self.tree[tree.root] = tree
            for function in tree.functions():
                self._define(tree, function)
            for node in tree.nodes:
                if isinstance(node, ast.Name | ast.Attribute):
                    self.mentions.setdefault(_unit(tree, node), []).append((node, last_name(node)))

    def _define(self, tree: Parents, function: FunctionNode) -> None:
        around, owner = tree.function_of(function), tree.class_of(function)
        self.tree[function] = tree
        self.names[function] = (function.name, *([owner.name] if owner is not None else []))
        for name in self.names[function]:
            self.by_name.setdefault(name, []).append(function)
        if around is not None:  # it is made where it stands
            self.mentions.setdefault(around, []).append((function, function.name))

    def callees(self, unit: Unit, after: ast.AST | None = None, before: ast.AST | None = None) -> set[Unit]:
        """Return the functions that a unit names behind a node (or in a loop around it), and those that they name."""
        found: set[Unit] = set()
        todo = [name for node, name in self.mentions.get(unit, ()) if self._between(unit, node, after, before)]
        seen: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                new = [function for function in self.by_name.get(name, ()) if function not in found]
                found.update(new)
                todo += [other for function in new for _, other in self.mentions.get(function, ())]
        return found

    def callers(self, function: FunctionNode) -> Iterator[tuple[Unit, ast.AST]]:
        """Yield who names a function or its class, and where."""
        wanted = self.names[function]
        for unit, mentions in self.mentions.items():
            if unit is not function:
                yield from ((unit, node) for node, name in mentions if name in wanted and node is not function)

    def _between(self, unit: Unit, node: ast.AST, after: ast.AST | None, before: ast.AST | None) -> bool:
        if before is not None and _at(node) > _at(before):
            return False
        if after is None or _at(node) > _at(after):
            return True
        tree = self.tree[unit]
        around = {a for a in tree.ancestors(after) if isinstance(a, _LOOPS) and _unit(tree, a) is unit}
        return any(a in around for a in tree.ancestors(node))


class _Reach:
    """Follows one policy from the call that sets it."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls
        self._found: set[Unit] = set()
        self._seen: set[tuple[Unit, ast.AST]] = set()

    def of(self, tree: Parents, setter: Setter) -> set[Unit] | None:
        """Return the functions in which it may hold; None for everything."""
        unit = _unit(tree, setter.node)
        if isinstance(unit, ast.Module) and not _guarded(tree, setter.node):
            return None
        return self._found if self._follow(unit, setter.node) else None

    def _follow(self, unit: Unit, node: ast.AST) -> bool:
        """Take in what runs in a unit behind a node, and behind it in its callers; return whether that has an end."""
        if (unit, node) in self._seen:
            return True
        self._seen.add((unit, node))
        restored = self._restored(unit, node)
        self._found |= {unit, *self._calls.callees(unit, node, restored)}
        if restored is not None:
            return True
        if isinstance(unit, ast.Module):
            return _guarded(self._calls.tree[unit], node)
        tree = self._calls.tree[unit]
        if _is_test(tree, unit):
            return True
        if unit.name in _SETS_UP and (owner := tree.class_of(unit)) is not None:
            return self._take([f for f in tree.functions() if tree.class_of(f) is owner])
        if (fixture := _fixture(unit)) is not None:
            return fixture and self._take([f for f in tree.functions() if _takes(f, unit.name)])
        callers = list(self._calls.callers(unit))
        if not callers:
            return any(name in _TRAINS for one in self._found for _, name in self._calls.mentions.get(one, ()))
        return all(self._follow(*caller) for caller in callers)

    def _take(self, functions: Iterable[FunctionNode]) -> bool:
        for function in functions:
            self._found |= {function, *self._calls.callees(function)}
        return True

    def _restored(self, unit: Unit, node: ast.AST) -> ast.Call | None:
        """Return the call behind a node of the same function that sets the policy float32 again."""
        tree = self._calls.tree[unit]
        later = [c for c in tree.every_call if _unit(tree, c) is unit and _at(c) > _at(node)]
        back = [c for c in later if "policy" in last_name(c.func) and _says_float32(c)]
        return min(back, key=_at, default=None)


def _says_float32(call: ast.Call) -> bool:
    return any(isinstance(a, ast.Constant) and a.value == "float32" for a in (*call.args, *_values(call)))


def _values(call: ast.Call) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords]


def _unit(tree: Parents, node: ast.AST) -> Unit:
    if isinstance(node, FunctionNode):
        return node
    return tree.function_of(node) or tree.root


def _at(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _guarded(tree: Parents, node: ast.AST) -> bool:
    """Return whether a node of a module runs only where the file is run as a script."""
    return any(isinstance(a, ast.If) and "__main__" in ast.unparse(a.test) for a in tree.ancestors(node))


def _is_test(tree: Parents, function: FunctionNode) -> bool:
    around = [function, *(a for a in tree.ancestors(function) if isinstance(a, FunctionNode))]
    return any(f.name.lower().startswith("test") for f in around)


def _fixture(function: FunctionNode) -> bool | None:
    """Return whether a function is a fixture that only those get who ask for it; None where it is no fixture."""
    texts = [ast.unparse(d) for d in function.decorator_list]
    own = [text for text in texts if "fixture" in text]
    return "autouse=True" not in own[0] if own else None


def _takes(function: FunctionNode, name: str) -> bool:
    named = any(a.arg == name for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs))
    return named or any("usefixtures" in text and name in text for text in map(ast.unparse, function.decorator_list))
