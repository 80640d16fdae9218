"""The user's program, read from top to bottom: branches, loops, functions; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, Literal

from tcprobe.audit.source.calls import unpacked
from tcprobe.audit.source.objects import Objects, SpentError, extends
from tcprobe.audit.source.parts import marked, used_inside
from tcprobe.audit.source.values import (
    Class,
    Draft,
    Entries,
    Env,
    Graph,
    Instance,
    Items,
    Named,
    Options,
    Routine,
    Stack,
    Tensor,
    Unknown,
    Value,
    number,
    together,
)
from tcprobe.syntax.values import Known

Left = Literal["return", "raise", "break", "continue"] | None


class Program(Objects):
    """Follows the statements of one file."""

    def follow(self) -> None:
        """Follow the module, then what nothing in it reaches: functions, classes, models that nothing calls."""
        self.env.vars["__name__"] = number("__main__")
        try:
            self.run(self.source.tree.body)
            self._enter_rest()
            self._finish()
        except SpentError:
            self.notes += ("the file is too long to be followed to its end; layers past that are not seen",)
        except RecursionError:
            self.notes += ("the file is nested too deeply to be followed to its end",)

    def _enter_rest(self) -> None:
        """Enter functions and classes that nothing reached, outermost first."""
        for instance in list(self.instances):
            if instance.keras == "model":
                self._call_once(instance)
        used = used_inside(self.source.tree)
        for inner in (False, True):  # what another one calls is best known from there
            found = [v for n, v in list(self.env.vars.items()) if (n in used) is inner]
            for value in found:
                if isinstance(value, Routine) and value.node not in self.entered:
                    self._enter_later(value, value.node)
            classes = [v for v in found if isinstance(v, Class) and self.env.vars.get(v.node.name) is v]
            for of in sorted(classes, key=lambda c: extends(c) != "model"):
                self._enter_class(of)

    def _enter_class(self, of: Class) -> None:
        made = next((i for i in self.instances if i.of is of), None)
        if made is None and not any(_extends_class(i.of, of) for i in self.instances):
            call = ast.copy_location(ast.Call(ast.Name(of.node.name, ast.Load()), [], []), of.node)
            found = self.construct(of, [], {}, call)
            made = found if isinstance(found, Instance) else None
        if made is None:
            return
        self._call_once(made)
        for member in list(of.members.values()):
            if isinstance(member, Routine) and member.node not in self.entered:
                self._enter_later(Routine(member.node, member.env, made, of), of.node)

    def _enter_later(self, routine: Routine, handed: ast.AST) -> None:
        """Enter what nothing calls; where the policy changed since it could be called first, there is none known."""
        policy = self.layers.policy
        if self.policies.get(handed, policy) != policy:
            self.layers.policy = None
        self.enter(routine, [], {})
        self.layers.policy = policy

    def _finish(self) -> None:
        """Build the models that nothing has built yet."""
        for instance in list(self.instances):
            if instance.keras == "model":
                self._call_once(instance)
        inner = {part for stack in self.stacks for part in stack.parts if isinstance(part, Stack)}
        for stack in sorted(self.stacks, key=lambda s: s in inner):
            self.finish(stack, ast.Call(ast.Name("", ast.Load()), [], []))

    def _call_once(self, instance: Instance) -> None:
        if instance.keras in ("model", "layer") and not instance.uses:
            fresh = True if instance.keras == "model" else None
            call = ast.copy_location(ast.Call(ast.Name("", ast.Load()), [], []), instance.of.node)
            self.apply_instance(instance, [Tensor(None, None, (), True, fresh)], {}, call)

    # statements

    def run(self, body: list[ast.stmt]) -> Left:
        """Follow statements; return how they are left, None where they run through."""
        for statement in body:
            self.step()
            follow = _STATEMENTS.get(type(statement))
            left = follow(self, statement) if follow is not None else None
            if left is not None:
                return left
        return None

    def bind(self, target: ast.AST, value: Value) -> None:
        """Give a target of an assignment its value."""
        if isinstance(target, ast.Name):
            passed = target.id == "tf" and isinstance(value, Unknown)
            self.env.vars[target.id] = Named("tensorflow") if passed else value
        elif isinstance(target, ast.Tuple | ast.List):
            starred = next((i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
            parts = unpacked(value, len(target.elts), starred)
            reason = value if isinstance(value, Unknown) else Unknown("is unpacked from something that is not known")
            for index, part in enumerate(target.elts):
                inner = part.value if isinstance(part, ast.Starred) else part
                self.bind(inner, parts[index] if parts is not None else reason)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(self.value(target.value), target.attr, value)
        elif isinstance(target, ast.Subscript):
            self._set_item(self.value(target.value), self.value(target.slice), value)

    def _set_attribute(self, of: Value, name: str, value: Value) -> None:
        self.layers.changes += 1
        if isinstance(of, Instance):
            known = of.attrs.get(name)
            of.attrs[name] = together(known, value) if self.conditions and known is not None else value
        elif isinstance(of, Options):
            of.entries[name] = together(of.entries.get(name), value) if self.conditions else value
        elif isinstance(of, Class):
            of.members[name] = value
        elif name == "trainable" and isinstance(of, Draft | Stack | Graph):
            self.frozen(of, Unknown("under a condition") if self.conditions else value)

    def _set_item(self, of: Value, key: Value, value: Value) -> None:
        self.layers.changes += 1
        if isinstance(of, Entries):
            if isinstance(key, Known) and not self.conditions:
                of.entries[key.value] = value
            else:
                of.open = "is changed in place"
        elif isinstance(of, Items):
            if isinstance(key, Known) and type(key.value) is int and -len(of.items) <= key.value < len(of.items):
                of.items[key.value] = value
            else:
                of.open = "is changed in place"

    def _assign(self, node: ast.Assign) -> Left:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)
        return None

    def _annotated(self, node: ast.AnnAssign) -> Left:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))
        return None

    def _augmented(self, node: ast.AugAssign) -> Left:
        left, right = self.value(node.target), self.value(node.value)
        if isinstance(left, Items) and isinstance(node.op, ast.Add):
            found = self.elements(right)
            left.items.extend(found or [])
            left.open = left.open or (None if found is not None else "is changed in place")
            return None
        whole = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        self.bind(node.target, self.arithmetic(node.op, left, right, whole))
        return None

    def _expression(self, node: ast.Expr) -> Left:
        self.value(node.value)
        return None

    def _return(self, node: ast.Return) -> Left:
        if node.value is not None:
            self.returned[-1].append(self.value(node.value))
        return "return"

    def _import(self, node: ast.Import) -> Left:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.env.vars[name] = Named(alias.name if alias.asname else name)
        return None

    def _import_from(self, node: ast.ImportFrom) -> Left:
        for alias in node.names:
            name = alias.asname or alias.name
            if node.level or alias.name == "*":
                unknown = Unknown(f"{name} comes from another file")
                self.env.vars.update({name: unknown} if alias.name != "*" else {})
            else:
                self.env.vars[name] = Named(f"{node.module}.{alias.name}")
        return None

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Left:
        for mark in node.decorator_list:
            self.value(mark)
        self.env.vars[node.name] = Routine(node, self.env)
        return None

    def _class(self, node: ast.ClassDef) -> Left:
        made = Class(node, self.env, [self.value(base) for base in node.bases])
        around, self.env = self.env, Env(self.env)
        self.run(node.body)
        members, self.env = self.env.vars, around
        for name, value in members.items():
            if isinstance(value, Routine) and value.node in node.body:
                value.env, value.holder = around, made
                if marked(value, "property"):
                    value = Unknown(f"{name} is computed")
            made.members[name] = value
        self.env.vars[node.name] = made
        return None

    # branches and loops

    def _if(self, node: ast.If) -> Left:
        known = self.decided(node.test)
        if known is not None:
            return self.run(node.body if known else node.orelse)
        return self._branches([node.body, node.orelse])

    def _branches(self, bodies: list[list[ast.stmt]]) -> Left:
        """Follow branches of which one will run; keep what holds in all."""
        before = self.env.vars
        policy = self.layers.policy
        ends: list[dict[str, Value]] = []
        lefts: list[Left] = []
        policies: list[str | None] = []
        self.conditions += 1
        for body in bodies:
            self.env.vars, self.layers.policy = dict(before), policy
            lefts.append(self.run(body))
            policies.append(self.layers.policy)
            if lefts[-1] is None:
                ends.append(self.env.vars)
        self.conditions -= 1
        self.layers.policy = policy if all(p == policy for p in policies) else None
        self.env.vars = before
        if not ends:
            return lefts[0]
        for name in {n for end in ends for n in end}:
            values = [end.get(name) for end in ends]
            result = values[0]
            for other in values[1:]:
                result = together(result, other)
            if result is not None:
                before[name] = result
        return None

    def _for(self, node: ast.For | ast.AsyncFor) -> Left:
        of = self.value(node.iter)
        elements = self.elements(of)
        if elements is None:
            self._once(node.target, of, node.body)
            return self.run(node.orelse)
        for element in elements:
            self.bind(node.target, element)
            left = self.run(node.body)
            if left == "break":
                return None
            if left in ("return", "raise"):
                return left
        return self.run(node.orelse)

    def _once(self, target: ast.AST | None, of: Value, body: list[ast.stmt]) -> None:
        """Follow the body of a loop of unknown length once, numbers that it changes unknown."""
        changed = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for name in changed & set(self.env.vars):
            if isinstance(self.env.vars[name], Known):
                self.env.vars[name] = Unknown(f"{name} changes in a loop")
        if target is not None:
            reason = of.reason if isinstance(of, Unknown) else "is the element of a loop that is not known"
            self.bind(target, of.items[0] if isinstance(of, Items) and len(of.items) == 1 else Unknown(reason))
        made = len(self.layers.drafts)
        self.run(body)
        for draft in self.layers.drafts[made:]:
            self.note(draft.node, f"{draft.kind}: how many there are", "it is made in a loop whose length is not known")

    def _while(self, node: ast.While) -> Left:
        self.value(node.test)
        self._once(None, number(None), node.body)
        return None

    def _with(self, node: ast.With | ast.AsyncWith) -> Left:
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value if isinstance(value, Tensor) else Unknown("is opened by with"))
        return self.run(node.body)

    def _try(self, node: ast.Try | ast.TryStar) -> Left:
        left = self.run(node.body)
        for handler in node.handlers:
            self._import_in(handler.body)
        return left or self.run(node.orelse) or self.run(node.finalbody)

    def _import_in(self, body: list[ast.stmt]) -> None:
        """Take what only an except branch imports: it stands for the same as what failed."""
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                known = dict(self.env.vars)
                _STATEMENTS[type(statement)](self, statement)
                self.env.vars.update(known)

    def _match(self, node: ast.Match) -> Left:
        self.value(node.subject)
        return self._branches([*(case.body for case in node.cases), []])


def _extends_class(of: Class, above: Class) -> bool:
    return any(base is above or (isinstance(base, Class) and _extends_class(base, above)) for base in of.bases)


_STATEMENTS: Final[dict[type[ast.stmt], Callable[[Program, Any], Left]]] = {
    ast.Assign: Program._assign,
    ast.AnnAssign: Program._annotated,
    ast.AugAssign: Program._augmented,
    ast.Expr: Program._expression,
    ast.Return: Program._return,
    ast.Import: Program._import,
    ast.ImportFrom: Program._import_from,
    ast.FunctionDef: Program._function,
    ast.AsyncFunctionDef: Program._function,
    ast.ClassDef: Program._class,
    ast.If: Program._if,
    ast.For: Program._for,
    ast.AsyncFor: Program._for,
    ast.While: Program._while,
    ast.With: Program._with,
    ast.AsyncWith: Program._with,
    ast.Try: Program._try,
    ast.TryStar: Program._try,
    ast.Match: Program._match,
    ast.Raise: lambda *_: "raise",
    ast.Break: lambda *_: "break",
    ast.Continue: lambda *_: "continue",
}
