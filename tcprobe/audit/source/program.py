"""The user's program, read from top to bottom, then what nothing in it reaches; nothing is executed."""

from __future__ import annotations

import ast
from functools import partial
from typing import Final

from msgspec import field
from msgspec.structs import replace

from tcprobe.audit.source.expressions import EXPRESSIONS, other_expression
from tcprobe.audit.source.functions import apply_instance, construct, enter, extends
from tcprobe.audit.source.imported import starred
from tcprobe.audit.source.kinds import Arguments, Class, Instance, Routine, SourceValue, Stack, Tensor
from tcprobe.audit.source.models import finish
from tcprobe.audit.source.state import MOST_EVALUATED, Left, Skipped, State
from tcprobe.audit.source.statements import STATEMENTS
from tcprobe.audit.source.values import SpentError, lineage
from tcprobe.source.scopes import every_node
from tcprobe.source.values import Known

_MOST_LATER: Final = 6_000  # steps in other files for what nothing calls
_MOST_LOOKS: Final = 20_000  # statements and calls that do not run and are looked at all the same


class Program(State, eq=False):
    """A file that is followed, with others where it uses them."""

    # first_of, extended: by the identity of a class, of the first `looked_at` instances.
    looked_at: int = 0
    first_of: dict[int, Instance] = field(default_factory=dict)
    extended: set[int] = field(default_factory=set)

    def value(self, node: ast.expr) -> SourceValue:
        """Return what an expression is, and note it."""
        kind = type(node)
        evaluate = EXPRESSIONS.get(kind)
        if evaluate is None:
            return other_expression(self, node)
        self.evaluated += 1
        if self.evaluated > MOST_EVALUATED:
            raise SpentError
        if kind is ast.Constant and (seen := self.seen.values.get(node)):
            return seen[0]
        value = evaluate(self, node)
        if self.env.home is self.source:
            self.seen.note(node, value)
        return value

    def run(self, body: list[ast.stmt]) -> Left:
        """Follow statements; return how they are left, None where they run through."""
        for index, statement in enumerate(body):
            self.step()
            self.seen.reached.add(statement)
            follow = STATEMENTS.get(type(statement))
            left = follow(self, statement) if follow is not None else None
            if left is not None:
                self.skip(body[index + 1 :])
                return left
        return None

    def follow(self) -> None:
        """Follow the module, then what nothing in it reaches: functions, classes, models that nothing calls."""
        self.env.load = partial(starred, self, self.source)
        self.env.vars["__name__"] = Known("__main__")
        try:
            self.run(self.source.tree.body)
            self.last_abroad = self.abroad + _MOST_LATER
            self.most_abroad = min(self.most_abroad, self.last_abroad)
            self._enter_rest()
            self._finish()
        except SpentError:
            self._cut("the file is too long to be followed to its end; layers past that are not seen")
        except RecursionError:
            self._cut("the file is nested too deeply to be followed to its end")
        self._look_at_rest()

    def _cut(self, reason: str) -> None:
        """Note that the file is followed no further."""
        self.note(reason)
        self.seen.cut = True

    def _enter_rest(self) -> None:
        """Enter functions and classes that nothing reached, outermost first."""
        self._call_models()
        variables, used = self.env.vars, _used_inside(self.source.tree)
        for inner in (False, True):  # what another one calls is best known from there
            found = [v for n, v in variables.items() if (n in used) is inner]
            for value in found:
                if type(value) is Routine and self.is_own(value.env) and value.node not in self.entered:
                    self._enter_later(value, value.node)
            own = [v for v in found if type(v) is Class and self.is_own(v.env) and variables.get(v.node.name) is v]
            for of in sorted(own, key=lambda c: extends(c) != "model"):
                self._enter_class(of)

    def _enter_class(self, of: Class) -> None:
        made = self._made_of(of)
        if made is None and id(of) in self.extended:
            return  # another class that extends it was constructed
        if made is None:
            made = construct(self, of, Arguments([], {}), _call_at(of.node))
        self._call_once(made)
        for member in list(of.members.values()):
            if type(member) is Routine and member.node not in self.entered:
                self._enter_later(replace(member, bound=made, holder=of), of.node)

    def _made_of(self, of: Class) -> Instance | None:
        """Return the first object of a class; note which classes those that were constructed extend."""
        for instance in self.instances[self.looked_at :]:
            self.first_of.setdefault(id(instance.of), instance)
            self.extended.update(id(base) for base in lineage(instance.of))
        self.looked_at = len(self.instances)
        return self.first_of.get(id(of))

    def _enter_later(self, routine: Routine, handed: ast.AST) -> None:
        """Enter what nothing calls; where the policy changed since it could be called first, there is none known."""
        same = self.policies.get(handed, self.policy) == self.policy
        with self.being(policy=self.policy if same else None):
            self.hand_on(enter(self, routine, Arguments([], {})))  # other files may build a model of it

    def _finish(self) -> None:
        """Build the models that nothing has built yet."""
        self._call_models()
        inner = {part for stack in self.stacks for part in stack.parts if type(part) is Stack}
        for stack in sorted(self.stacks, key=lambda s: s in inner):
            finish(self, stack, _call_at(self.source.tree))

    def _call_models(self) -> None:
        for instance in list(self.instances):
            if instance.keras == "model":
                self._call_once(instance)

    def _call_once(self, instance: Instance) -> None:
        if instance.keras in ("model", "layer") and not instance.uses:
            fresh = True if instance.keras == "model" else None
            shape = self.given.filled(None, instance.names, by_name=instance.keras == "layer")
            apply_instance(
                self, instance, Arguments([Tensor(shape, None, (), True, fresh)], {}), _call_at(instance.of.node)
            )

    def _look_at_rest(self) -> None:
        """Look at what does not run, as far as is known: functions that nothing entered, branches that were not taken.

        What that defines or leaves out comes next.
        """
        self.frames, self.calling, self.returned, self.conditions, self.doubts = [], [], [], 0, []
        self.most_steps = self.steps + _MOST_LOOKS
        self.evaluated = min(self.evaluated, MOST_EVALUATED // 2)
        while self.env.parent is not None:
            self.env = self.env.parent
        try:
            while (skipped := self._not_followed()) or (routines := self._not_entered()):
                for piece in skipped or routines:
                    self._look_at(piece)
        except (SpentError, RecursionError):
            self.aside = False
            self.seen.cut = True

    def _not_followed(self) -> list[Skipped]:
        rest = self.seen.skipped.items()
        return [skipped for first, skipped in rest if first not in self.seen.reached and self.is_own(skipped.env)]

    def _not_entered(self) -> list[Routine]:
        return [r for n, r in self.routines.items() if n not in self.entered and self.is_own(r.env)]

    def _look_at(self, piece: Skipped | Routine) -> None:
        with self.looking(piece.env):
            if isinstance(piece, Skipped):
                self.run(piece.body)
                return
            bound = Instance(piece.holder, {}) if piece.holder is not None else piece.bound
            enter(self, replace(piece, bound=bound), Arguments([], {}))


def _call_at(node: ast.AST) -> ast.Call:
    """Return a call that the file does not write, standing where a class does."""
    return ast.copy_location(ast.Call(ast.Name(getattr(node, "name", ""), ast.Load()), [], []), node)


def _used_inside(module: ast.Module) -> set[str]:
    """Return the names that functions and classes of a module use of one another, each its own left out."""
    found: set[str] = set()
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = {n.id for n in every_node(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            found |= names - {statement.name}
    return found
