"""The user's own functions and classes, entered where they are called."""

from __future__ import annotations

import ast
from typing import Final

from tcprobe.audit.source.calls import Keywords, Outside
from tcprobe.audit.source.layers import unparsed
from tcprobe.audit.source.parts import find_member, marked, truth
from tcprobe.audit.source.values import (
    Bound,
    Class,
    Draft,
    Entries,
    Env,
    Graph,
    Instance,
    Items,
    Named,
    Routine,
    Stack,
    Tensor,
    Unknown,
    Value,
    items_of,
    tensors_of,
    together,
)
from tcprobe.syntax.enclosing import all_parameters
from tcprobe.syntax.keras_names import canonical, layer_class
from tcprobe.syntax.names import PASSED
from tcprobe.syntax.source import Source
from tcprobe.syntax.values import Known

MOST_DEEP: Final = 24
MOST_STEPS: Final = 8_000


class SpentError(Exception):
    """The program is too long to be followed to its end."""


class Objects(Outside):
    """Calls of the user's functions and classes.

    Attributes:
        entered: functions that were followed at least once.
        steps: statements and calls followed so far.
        policies: the precision policy at the time when a function was handed to something that is not followed, or
            a class was constructed: the earliest at which it may be called.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.stacks, self.graphs, self.instances, self.missed, self.fed = [], [], [], {}, {}
        self.entered: set[ast.AST] = set()
        self.steps = 0
        self.policies: dict[ast.AST, str | None] = {}
        self.frames: list[Routine] = []
        self.returned: list[list[Value]] = [[]]

    def run(self, body: list[ast.stmt]) -> str | None:
        """Follow statements; return how they are left, None where they run through."""
        raise NotImplementedError

    def step(self) -> None:
        """Count a step; raise `SpentError` past the most."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise SpentError

    def call(self, node: ast.Call) -> Value:
        """Return what a call is, its arguments evaluated first."""
        self.step()
        if isinstance(node.func, ast.Name) and node.func.id == "super" and self.frames:
            frame = self.frames[-1]
            return Bound(frame.bound, "super", [frame.holder]) if frame.bound and frame.holder else Unknown("super()")
        func = self.value(node.func)
        args: list[Value] = []
        lacking = False
        for arg in node.args:
            if not isinstance(arg, ast.Starred):
                args.append(self.value(arg))
                continue
            spread = self.value(arg.value)
            found = self.elements(spread)
            args.extend(found if found is not None else tensors_of(spread))
            lacking = lacking or found is None
        keywords: Keywords = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, Entries):
                keywords.update({k: v for k, v in value.entries.items() if isinstance(k, str)})
                lacking = lacking or value.open is not None
            else:
                lacking = True
        self.lacking = lacking
        return self.invoke(func, args, keywords, node)

    def invoke(self, func: Value, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        """Return the result of calling a value."""
        if isinstance(func, Named):
            self._hand_out([*args, *keywords.values()])
            return self.outside(func.name, args, keywords, node)
        if isinstance(func, Routine):
            return self.enter(func, args, keywords)
        if isinstance(func, Class):
            return self.construct(func, args, keywords, node)
        if isinstance(func, Instance):
            return self.apply_instance(func, args, keywords, node)
        if isinstance(func, Draft | Stack | Graph):
            keep = ("mask", "training", "initial_state", "attention_mask")
            return self.apply(func, [*args, *(v for k, v in keywords.items() if k not in keep)], node)
        if isinstance(func, Bound) and func.name == "partial":
            return self.invoke(func.target, [*func.args, *args], {**func.keywords, **keywords}, node)
        if isinstance(func, Bound):
            return self._bound(func, args, keywords, node)
        self._hand_out([*args, *keywords.values()])
        return self._unknown(node, [t for a in (*args, *keywords.values()) for t in tensors_of(a)])

    def _hand_out(self, args: list[Value]) -> None:
        for arg in args:
            if isinstance(arg, Routine):
                self.policies.setdefault(arg.node, self.layers.policy)

    def _bound(self, func: Bound, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        of = func.target
        if isinstance(of, Bound) and of.name == "super":
            return self._inherited(of, func.name, args, keywords)
        return self.method(func, args, keywords, node)

    def attribute(self, of: Value, node: ast.Attribute) -> Value:
        """Return an attribute of a value; of ``super()`` one of the classes above."""
        if not isinstance(of, Bound) or of.name != "super":
            return super().attribute(of, node)
        return Bound(of, node.attr)

    def _inherited(self, of: Bound, name: str, args: list[Value], keywords: Keywords) -> Value:
        holder = of.args[0]
        for base in holder.bases if isinstance(holder, Class) else ():
            found = find_member(base, name) if isinstance(base, Class) else None
            if isinstance(found, Routine):
                return self.enter(Routine(found.node, found.env, of.target, found.holder), args, keywords)
        if name == "__init__" and isinstance(of.target, Instance) and "outputs" in keywords:
            self.graphs.append(Graph(keywords.get("inputs", Unknown("")), keywords["outputs"]))
        return Unknown(f"is the result of super().{name}()")

    # functions

    def enter(self, routine: Routine, args: list[Value], keywords: Keywords) -> Value:
        """Follow a function of the file with what it is handed; return what it returns."""
        self.entered.add(routine.node)
        deep = sum(frame.node is routine.node for frame in self.frames)
        if deep > 1 or len(self.frames) > MOST_DEEP:
            return Unknown("calls itself")
        self.step()
        around = self.env
        self.env = Env(routine.env)
        self._hand(routine, args, keywords)
        self.frames.append(routine)
        self.returned.append([])
        if isinstance(routine.node, ast.Lambda):
            self.returned[-1].append(self.value(routine.node.body))
        else:
            self.run(routine.node.body)
        self.frames.pop()
        self.env = around
        found = self.returned.pop()
        if not found:
            return Known(None, (), ast.Constant(None))
        result = found[0]
        for other in found[1:]:
            result = together(result, other)
        return result

    def _hand(self, routine: Routine, args: list[Value], keywords: Keywords) -> None:
        """Bind the parameters of a function."""
        arguments = routine.node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        given = ([routine.bound] if routine.bound is not None and not marked(routine, "staticmethod") else []) + args
        values: dict[str, Value] = dict(zip(names, given, strict=False))
        known = {a.arg for a in all_parameters(arguments)}
        values.update({k: v for k, v in keywords.items() if k in known})
        defaults = _defaults(arguments)
        scope, self.env = self.env, routine.env
        for name in known - set(values):
            default = defaults.get(name)
            values[name] = (
                self.value(default) if default is not None else Unknown(f"{name} comes from a function argument")
            )
        self.env = scope
        if arguments.vararg is not None:
            values[arguments.vararg.arg] = Items(given[len(names) :])
        if arguments.kwarg is not None:
            values[arguments.kwarg.arg] = Entries({k: v for k, v in keywords.items() if k not in known})
        for name, value in values.items():
            passed = name in PASSED and isinstance(value, Unknown)
            self.env.vars[name] = Named(PASSED[name]) if passed else value

    # classes

    def construct(self, of: Class, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        """Construct an object of a class of the file."""
        keras = extends(of)
        made = Instance(of, {}, keras)
        if keras is not None and keras not in ("model", "layer"):
            self.note(node, of.node.name, f"inherits from {keras} in this file, and is not guessed at")
        init = find_member(of, "__init__")
        self.instances.append(made)
        self.policies.setdefault(of.node, self.layers.policy)
        if isinstance(init, Routine):
            self.enter(Routine(init.node, init.env, made, init.holder), args, keywords)
        elif keras is None:
            self._fields(made, of, args, keywords)
        self.layers.changes += 1
        return made

    def _fields(self, made: Instance, of: Class, args: list[Value], keywords: Keywords) -> None:
        """Give a record its fields, as a data class or a named tuple does."""
        for base in of.bases:
            if isinstance(base, Class):
                self._fields(made, base, [], {})
        declared = [s for s in of.node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
        names = [*made.attrs, *(s.target.id for s in declared if isinstance(s.target, ast.Name))]
        for name in dict.fromkeys(names):
            default = of.members.get(name) or made.attrs.get(name)
            made.attrs[name] = default or Unknown(f"{name} of {of.node.name} is not set")
        made.attrs.update(zip(list(made.attrs), args, strict=False))
        made.attrs.update({k: v for k, v in keywords.items() if k in made.attrs})

    def apply_instance(self, of: Instance, args: list[Value], keywords: Keywords, node: ast.Call) -> Value:
        """Call a model or layer of the user's own class: follow its `call`."""
        call = find_member(of.of, "call" if of.keras else "__call__")
        tensors = [t for a in (*args, *keywords.values()) for t in tensors_of(a)]
        if not isinstance(call, Routine) or of.keras not in (None, "model", "layer"):
            return self._unknown(node, tensors)
        symbolic = any(t.symbolic for t in tensors)
        if of.keras and of.uses and not symbolic and of.output is not None:
            return of.output
        if of.keras and not of.uses and not symbolic:
            args = [_traced(a) for a in args]
        if of.keras and not of.uses:
            self._build(of, args)
        of.uses += 1
        routine = Routine(call.node, call.env, of, call.holder)
        if of.keras and "training" not in keywords:
            keywords = {**keywords, "training": Unknown("training or not")}
        found = self.enter(routine, args, {k: v for k, v in keywords.items() if k != "mask"})
        of.output = of.output or found
        return found

    def _build(self, of: Instance, args: list[Value]) -> None:
        build = find_member(of.of, "build")
        if not isinstance(build, Routine):
            return
        first = args[0] if args else Unknown("")
        shape: Value = Unknown("its input shape is not known")
        if isinstance(first, Tensor):
            shape = super().attribute(first, ast.Attribute(ast.Constant(None), "shape", ast.Load()))
        self.enter(Routine(build.node, build.env, of, build.holder), [shape], {})

    def decided(self, test: ast.expr) -> bool | None:
        """Return what a condition is; None where that is not known."""
        return truth(self.value(test))

    def describe(self, node: ast.expr) -> str:
        """Return an expression's text, short."""
        return unparsed(node)


def extends(of: Value) -> str | None:
    """Return which of Keras' classes a class extends: ``model``, ``layer`` or a name; None where none."""
    for base in of.bases if isinstance(of, Class) else ():
        if isinstance(base, Class):
            found = extends(base)
        else:
            name = canonical(base.name) if isinstance(base, Named) else ""
            own = layer_class(name)
            found = {"keras.Model": "model", "keras.Sequential": "Sequential", "keras.layers.Layer": "layer"}.get(
                name, own
            )
        if found is not None:
            return found
    return None


def _traced(value: Value) -> Value:
    """Return data as the input of a model: symbolic, its batch open."""
    if isinstance(value, Tensor):
        shape = (None, *value.shape[1:]) if value.shape else None
        return Tensor(shape, value.features, value.sources, True, value.fresh)
    items = items_of(value)
    return Items([_traced(v) for v in items]) if items is not None and tensors_of(value) else value


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = zip(reversed(positional), reversed(arguments.defaults), strict=False)
    found = {arg.arg: default for arg, default in pairs}
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {**found, **{arg.arg: default for arg, default in named if default is not None}}
