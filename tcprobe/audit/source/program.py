"""The user's program, read from top to bottom, then what nothing in it reaches; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from tcprobe.audit.source.answers import Answers
from tcprobe.audit.source.calls import Calls
from tcprobe.audit.source.classes import Classes, extends
from tcprobe.audit.source.expressions import Expressions
from tcprobe.audit.source.functions import Functions
from tcprobe.audit.source.outside.given import GivenShapes
from tcprobe.audit.source.outside.imported import Imported
from tcprobe.audit.source.outside.models import Models
from tcprobe.audit.source.seen import Skipped
from tcprobe.audit.source.state import MOST_EVALUATED, Interpreter, State
from tcprobe.audit.source.statements import Statements
from tcprobe.audit.source.targets import Targets
from tcprobe.audit.source.values.kinds import (
    Arguments,
    Class,
    Instance,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    known_constant,
)
from tcprobe.audit.source.values.known import SpentError
from tcprobe.audit.source.values.parts import lineage
from tcprobe.schema.model import InputShape
from tcprobe.source.source import Source

_MOST_LATER: Final = 6_000  # steps in other files for what nothing calls
_MOST_LOOKS: Final = 20_000  # statements and calls that do not run and are looked at all the same


def follow_source(source: Source, tree: str | None = None, shapes: Sequence[InputShape] = ()) -> Answers:
    """Follow a file, with others of the folder `tree` where it uses them; return what that shows."""
    program = Program(source, tree, shapes)
    program.follow()
    return Answers(program.state)


class Program:
    """The parts that follow one file, each holding those that it needs."""

    def __init__(self, source: Source, tree: str | None = None, shapes: Sequence[InputShape] = ()) -> None:
        self.state = State(source, tree, GivenShapes(shapes))
        self._functions = Functions(self.state, self)
        self._classes = Classes(self.state, self._functions)
        self._models = Models(self.state, self._classes)
        calls = Calls(self.state, self, self._functions, self._classes, self._models)
        targets = Targets(self.state, self)
        expressions = Expressions(self.state, calls.call, targets.bind)
        # Calls lead back to expressions and statements: as `Interpreter` they ask the whole for these.
        self.value = expressions.value
        self._rest = Rest(self.state, self._functions, self)
        imported = Imported(self.state, self)
        self.state.env.load = partial(imported.starred, source)
        self.run = Statements(self.state, expressions, targets, imported).run

    def follow(self) -> None:
        """Follow the module, then what nothing in it reaches: functions, classes, models that nothing calls."""
        self.state.env.vars["__name__"] = known_constant("__main__")
        try:
            self.run(self.state.source.tree.body)
            self.state.last_abroad = self.state.abroad + _MOST_LATER
            self.state.most_abroad = min(self.state.most_abroad, self.state.last_abroad)
            self._enter_rest()
            self._finish()
        except SpentError:
            self._cut("the file is too long to be followed to its end; layers past that are not seen")
        except RecursionError:
            self._cut("the file is nested too deeply to be followed to its end")
        self._rest.look()

    def _cut(self, reason: str) -> None:
        """Note that the file is followed no further."""
        self.state.note(reason)
        seen, body = self.state.seen, self.state.source.tree.body
        seen.cut = reason
        seen.unfinished.update(frame.node for frame in self.state.frames)
        seen.unfinished.update([s for s in body if s in seen.reached][-1:])

    def _enter_rest(self) -> None:
        """Enter functions and classes that nothing reached, outermost first."""
        self._call_models()
        variables, used = self.state.env.vars, _used_inside(self.state.source.tree)
        for inner in (False, True):  # what another one calls is best known from there
            found = [v for n, v in variables.items() if (n in used) is inner and self._is_own(v)]
            for value in found:
                if isinstance(value, Routine) and value.node not in self._functions.entered:
                    self._enter_later(value, value.node)
            classes = [v for v in found if isinstance(v, Class) and variables.get(v.node.name) is v]
            for of in sorted(classes, key=lambda c: extends(c) != "model"):
                self._enter_class(of)

    def _is_own(self, value: SourceValue) -> bool:
        """Return whether a function or class is the file's own."""
        return isinstance(value, Routine | Class) and self.state.is_own(value.env)

    def _enter_class(self, of: Class) -> None:
        instances = self.state.instances
        made = next((i for i in instances if i.of is of), None)
        if made is None and not any(_extends_class(i.of, of) for i in instances):
            call = ast.copy_location(ast.Call(ast.Name(of.node.name, ast.Load()), [], []), of.node)
            made = self._classes.construct(of, Arguments([], {}), call)
        if made is None:
            return
        self._call_once(made)
        for member in list(of.members.values()):
            if isinstance(member, Routine) and member.node not in self._functions.entered:
                self._enter_later(replace(member, bound=made, holder=of), of.node)

    def _enter_later(self, routine: Routine, handed: ast.AST) -> None:
        """Enter what nothing calls; where the policy changed since it could be called first, there is none known."""
        policy = self.state.policy
        same = self.state.policies.get(handed, policy) == policy
        with self.state.under(policy if same else None):
            self._functions.enter(routine, Arguments([], {}))

    def _finish(self) -> None:
        """Build the models that nothing has built yet."""
        self._call_models()
        stacks = self.state.stacks
        inner = {part for stack in stacks for part in stack.parts if isinstance(part, Stack)}
        for stack in sorted(stacks, key=lambda s: s in inner):
            self._models.finish(stack, ast.Call(ast.Name("", ast.Load()), [], []))

    def _call_models(self) -> None:
        for instance in list(self.state.instances):
            if instance.keras == "model":
                self._call_once(instance)

    def _call_once(self, instance: Instance) -> None:
        if instance.keras in ("model", "layer") and not instance.uses:
            fresh = True if instance.keras == "model" else None
            call = ast.copy_location(ast.Call(ast.Name("", ast.Load()), [], []), instance.of.node)
            given = self.state.given.filled(None, instance.names, by_name=instance.keras == "layer")
            self._classes.apply(instance, Arguments([Tensor(given, None, (), True, fresh)], {}), call)


class Rest:
    """Looks at what does not run, as far as is known: functions that nothing entered, branches that were not taken."""

    def __init__(self, state: State, functions: Functions, interpreter: Interpreter) -> None:
        self._state = state
        self._functions = functions
        self._interpreter = interpreter

    def look(self) -> None:
        """Look at all that was not reached; what that defines or leaves out comes next."""
        state = self._state
        state.frames, state.calling, state.returned, state.conditions = [], [], [[]], 0
        state.doubts = []
        state.most_steps = state.steps + _MOST_LOOKS
        state.evaluated = min(state.evaluated, MOST_EVALUATED // 2)
        while state.env.parent is not None:
            state.env = state.env.parent
        try:
            while (skipped := self._not_followed()) or (routines := self._not_entered()):
                for piece in skipped or routines:
                    self._look(piece)
        except (SpentError, RecursionError):
            state.aside = False
            state.seen.cut = state.seen.cut or "the file is too long to be followed to its end"

    def _not_followed(self) -> list[Skipped]:
        seen, own = self._state.seen, self._state.is_own
        return [skipped for first, skipped in seen.skipped.items() if first not in seen.reached and own(skipped.env)]

    def _not_entered(self) -> list[Routine]:
        routines = self._state.routines.items()
        return [r for n, r in routines if n not in self._functions.entered and self._state.is_own(r.env)]

    def _look(self, piece: Skipped | Routine) -> None:
        with self._state.looking(piece.env):
            if isinstance(piece, Skipped):
                self._interpreter.run(piece.body)
                return
            bound = Instance(piece.holder, {}) if piece.holder is not None else piece.bound
            self._functions.enter(replace(piece, bound=bound), Arguments([], {}))


def _extends_class(of: Class, above: Class) -> bool:
    return of is not above and any(base is above for base in lineage(of))


def _used_inside(module: ast.Module) -> set[str]:
    """Return the names that functions and classes of a module use of one another, each its own left out."""
    found: set[str] = set()
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            found |= names - {statement.name}
    return found
