"""Where the reading of a program stands, and what it has found so far; its parts are functions on this."""

from __future__ import annotations

import ast
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, field

from tcprobe.audit.source.given import GivenShapes, models_of, named
from tcprobe.audit.source.kinds import (
    Arguments,
    Awaited,
    CommandLine,
    Draft,
    Entries,
    Env,
    Graph,
    Instance,
    Items,
    Module,
    Multiplied,
    Named,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    Training,
)
from tcprobe.audit.source.layers import SourceLayers
from tcprobe.audit.source.values import SpentError, guessed, one_of, tensors_of
from tcprobe.schema.model import GpuAsked, Place
from tcprobe.source.source import Source
from tcprobe.source.values import Doubts, Known

MOST_STEPS: Final = 20_000
MOST_EVALUATED: Final = 400_000
"""Expressions, each as often as it is evaluated; steps alone count no comprehensions within comprehensions."""
MOST_VALUES: Final = 64  # values that one expression may have before it counts as unknown
MOST_ABROAD: Final = 12_000  # steps in other files, where sizes arrive there
TRIAL_ABROAD: Final = 3_000  # and where none did yet
_LONGEST: Final = 64  # elements of a list that is kept as it was when it was read
_OF_MODEL: Final = ("call", "build")
_WITH_TENSORS: Final = frozenset((Tensor, Items, Entries))
_WITH_MODELS: Final = frozenset((Stack, Graph, Instance, Items, Entries))
_NO_CONSTANT: Final = Named("")  # stands for all values of an expression that are none, behind its first value
Left: TypeAlias = Literal["return", "raise", "break", "continue"] | None
"""How statements are left; None where they run through."""


class Skipped(Struct, eq=False):
    """Statements that were not followed, and the variables at that point; `dead` where they never run."""

    body: list[ast.stmt]
    env: Env
    dead: bool


class Seen(Struct, eq=False):
    """What was seen of one file while it was followed."""

    # every constant that each expression was when it was evaluated, and whether it was anything else; more than
    # `MOST_VALUES` where there are too many
    values: dict[ast.expr, list[SourceValue]] = field(default_factory=dict)
    # of an expression with several: what tells its values apart
    apart: dict[ast.expr, set[Any]] = field(default_factory=dict)
    reached: set[ast.stmt] = field(default_factory=set)  # the statements that were followed
    # what was not followed where it stood, by its first statement
    skipped: dict[ast.stmt, Skipped] = field(default_factory=dict)
    calls: set[ast.Call] = field(default_factory=set)  # every call that was evaluated
    # the calls that may enter other functions, or a function in another way
    unsure: set[ast.Call] = field(default_factory=set)
    cut: bool = False  # whether the file was not followed to its end

    def note(self, node: ast.expr, value: SourceValue) -> None:
        """Note that an expression had a value."""
        values = self.values.get(node)
        if values is None:
            self.values[node] = [_as_now(value)]
            return
        if type(value) is not Known and type(value) is not Items:
            value = _NO_CONSTANT
        if len(values) <= MOST_VALUES and not _is_again(value, values[-1]):
            apart = self.apart.get(node)
            if apart is None:
                apart = self.apart[node] = {_identity(values[0])}
            if (identity := _identity(value)) not in apart:
                values.append(_as_now(value))
                apart.add(identity if identity != id(value) else id(values[-1]))

    def skip(self, body: list[ast.stmt], env: Env, dead: bool) -> None:
        """Note that statements were not followed."""
        if body and body[0] not in self.reached:
            found = self.skipped.setdefault(body[0], Skipped(body, env, dead))
            if found.env is env:
                found.env = env.with_vars(dict(env.vars))
            found.dead = found.dead and dead


def _as_now(value: SourceValue) -> SourceValue:
    """Return a value that stays as it is now: others may change a list later on."""
    kept = type(value) is Items and len(value.items) <= _LONGEST
    return Items(list(value.items), value.open, value.doubts) if kept and type(value) is Items else value


def _is_again(value: SourceValue, last: SourceValue) -> bool:
    """Return whether a value is the last one again, as most in loops are; others may be the same and not seen to be."""
    if type(value) is not Known or type(last) is not Known:
        return value is last
    return value.value is last.value and value.abroad is last.abroad and value.doubts == last.doubts


def _identity(value: SourceValue) -> object:
    """Return what a value shares with those that are the same: equal and as sure; of what is no constant, itself."""
    if type(value) is Known:
        return type(value.value), _typed(value.value), value.abroad, value.doubts
    return id(value)


def _typed(constant: object) -> object:
    """Return a constant so that 1 is not True, nor 1.0, within tuples too."""
    if isinstance(constant, tuple):
        return tuple((type(part), _typed(part)) for part in constant)
    return constant if constant == constant else "not a number"


class _Being:
    """Parts of a state that are others for a while; `contextmanager` would take several times as long."""

    def __init__(self, of: State, state: dict[str, Any]) -> None:
        self._of = of
        self._state = state

    def __enter__(self) -> None:
        self._swap()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._swap()

    def _swap(self) -> None:
        of, state = self._of, self._state
        for name, value in state.items():
            state[name] = getattr(of, name)
            setattr(of, name, value)


class State(Struct, eq=False):
    """What the parts of a reading share."""

    source: Source  # the file
    # the folder that is audited, by its absolute path; None where the file was named by itself
    tree: str | None = None
    given: GivenShapes = field(default_factory=GivenShapes)  # the shapes of inputs that the user gives
    argv: tuple[str, ...] = ()  # the script's own arguments, where the user gives any
    # layers, stacks, graphs, instances: what was constructed, in order.
    layers: SourceLayers = field(default_factory=SourceLayers)
    stacks: list[Stack] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    # what the code multiplies by itself, those of one call and object that are alike once; and where each ``@`` stands
    multiplied: dict[tuple[ast.expr, Tensor, Tensor, str, Instance | None], Multiplied] = field(default_factory=dict)
    operators: dict[ast.expr, Place] = field(default_factory=dict)
    # what trains, in order; the running loop that no other is around, and what takes gradients outside any; how many
    # tapes are open; what each model is compiled with, by its id
    trainings: list[Training] = field(default_factory=list)
    loop: Training | None = None
    unlooped: Training = field(default_factory=Training)
    taped: int = 0
    compiled: dict[int, Arguments] = field(default_factory=dict)
    auto_jit: bool = False  # whether the file has XLA cluster every function
    tf32_off: bool = False  # whether the file forbids that float32 runs as TF32
    handed: set[str] = field(default_factory=set)  # the layers whose outputs went into what is not followed
    handed_on: dict[int, SourceValue] = field(default_factory=dict)  # what else did that may hold models, by its id
    trains_unknown: bool = False  # whether something may be trained of which it is not known which model that is
    # what each input of a model is given by other models, by the name of its source
    fed: dict[str, list[Tensor]] = field(default_factory=dict)
    # the calls that declare how large an input of a model is, likewise
    declared: dict[str, ast.Call] = field(default_factory=dict)
    met: list[list[Tensor]] = field(default_factory=list)  # tensors that operators add up, or merge otherwise
    compared: list[list[Tensor]] = field(default_factory=list)  # those that losses compare number by number
    # saved, loaded: layers whose outputs a model takes that was saved, and those whose weights come from a file.
    saved: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    # what could not be followed: why, where; by node and what, once
    missed: dict[tuple[ast.AST, str], tuple[str, Place]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what limits the reading, one sentence each
    flags: CommandLine = field(default_factory=lambda: CommandLine({}))  # absl's flags
    policy: str | None = "float32"  # the precision policy now; None where unknown
    # the policy when a function was first handed to something that is not followed, or a class was first constructed:
    # the earliest at which it may be called
    policies: dict[ast.AST, str | None] = field(default_factory=dict)
    env: Env = field(default_factory=Env)  # variables of the frame that runs
    frames: list[Routine] = field(default_factory=list)  # the functions that are being followed, outermost first
    returned: list[SourceValue] = field(default_factory=list)  # what the frame that runs has returned so far
    conditions: int = 0  # how many conditions that are not known the running statement stands under
    # steps, most_steps: statements and calls followed so far, and at which number the reading ends.
    steps: int = 0
    most_steps: int = MOST_STEPS
    # the functions and lambdas that were defined, by their nodes, and those that were followed at least once
    routines: dict[ast.AST, Routine] = field(default_factory=dict)
    entered: set[ast.AST] = field(default_factory=set)
    seen: Seen = field(default_factory=Seen)  # what was seen on the way
    # by a model, what calls and what is called, the calls that enter a function which runs the model under a tape
    ways_in: dict[tuple[SourceValue, ast.AST, ast.AST | None], set[ast.Call]] = field(default_factory=dict)
    calling: list[ast.Call] = field(default_factory=list)  # the calls that are being followed, outermost first
    # the variable or attribute that a call's result is assigned to, where shapes are given
    assigned: dict[ast.expr, str] = field(default_factory=dict)
    doubts: list[Doubts] = field(default_factory=list)  # why the running statement may not run, or another in its place
    inner: int = 0  # how many of them are from outside the function that runs
    shaky: set[str] = field(default_factory=set)  # the names of attributes that loops of unknown length assign
    aside: bool = False  # whether what runs only looks at expressions: nothing is entered, constructed or changed
    # abroad, most_abroad: steps in other files so far, and past which none of their functions is entered.
    abroad: int = 0
    last_abroad: int = MOST_ABROAD  # how far that may rise
    most_abroad: int = TRIAL_ABROAD
    evaluated: int = 0  # expressions evaluated so far, those in other files too
    modules: dict[str, Module] = field(default_factory=dict)  # the other files that imports led to, by path
    loading: int = 0  # how many of their variables wait for one another
    # gpu_there, gpu_visible: whether the machine that the audit is for shows a GPU to the program, and whether that
    # leaves it to TensorFlow; None where the file hides it under a condition.
    gpu_there: bool | None = True
    gpu_visible: bool | None = True
    gpu_asked: dict[ast.AST, GpuAsked] = field(default_factory=dict)  # the calls that asked and were told of one

    def __post_init__(self) -> None:
        self.env.home = self.source

    # `Program` does these by its tables of all kinds of expressions and statements.

    def value(self, node: ast.expr) -> SourceValue:
        """Return what an expression is, and note it."""
        raise NotImplementedError

    def run(self, body: list[ast.stmt]) -> Left:
        """Follow statements; return how they are left."""
        raise NotImplementedError

    def look(self, node: ast.expr) -> SourceValue:
        """Return what an expression would be that is not evaluated here."""
        with self.looking(Env(self.env)):
            return self.value(node)

    @property
    def here(self) -> Source:
        """The file whose code runs: `source`, or one that it imports."""
        return self.env.home or self.source

    def arrived(self, draft: Draft) -> None:
        """Note that a layer was called: where its sizes are told, other files are worth following further."""
        if draft.place.file != self.source.path and any(t.shape and None not in t.shape[1:] for t in draft.inputs):
            self.most_abroad = max(self.most_abroad, self.last_abroad)

    def is_own(self, env: Env) -> bool:
        """Return whether variables are those of the file itself, not of one that it imports."""
        return env.home is self.source

    @property
    def in_model(self) -> bool:
        """Whether what runs is part of a model: the batch is that of the model's inputs, other sizes are their own."""
        return any(
            type(f.bound) is Instance and f.bound.keras is not None and getattr(f.node, "name", "") in _OF_MODEL
            for f in self.frames
        )

    def step(self) -> None:
        """Count a step; raise `SpentError` past the most of the file's own."""
        if self.env.home is not self.source:
            self.abroad += 1
            return
        self.steps += 1
        if self.steps > self.most_steps:
            raise SpentError

    def evaluate(self) -> None:
        """Count an expression that is evaluated; raise `SpentError` past the most of all files together."""
        self.evaluated += 1
        if self.evaluated > MOST_EVALUATED:
            raise SpentError

    def guessed(self, value: SourceValue, outer: int = 0) -> SourceValue:
        """Return what a running statement yields, with the doubts about the statement but for the `outer` first."""
        doubts = self.doubts[outer:]
        return guessed(value, frozenset().union(*doubts)) if doubts else value

    def names(self, node: ast.Call) -> list[str]:
        """Return what the result of a call is known by, its own names first; nothing where no shapes are given."""
        if not self.given.is_any:
            return []
        own = self.assigned.get(node)
        found = [*named(node), *([own, *models_of(self.here, own)] if own else [])]
        return [*found, *(self.assigned[call] for call in reversed(self.calling) if call in self.assigned)]

    def note(self, text: str) -> None:
        """Say once what limits the reading."""
        if text not in self.notes and not self.aside:
            self.notes.append(text)

    def miss(self, node: ast.AST, what: str, reason: str) -> None:
        """Say once that something was not followed."""
        self.missed.setdefault((node, what), (reason, self.here.place(node)))

    def skip(self, body: list[ast.stmt], dead: bool = False) -> None:
        """Note that statements are not followed here; `dead` where they never run."""
        self.seen.skip(body, self.env, dead)

    def set_policy(self, policy: str | None) -> None:
        """Set the precision policy; unknown where it changes under a condition."""
        self.policy = None if self.conditions and policy != self.policy else policy

    def behind(self, before: bool | None, after: bool) -> bool | None:
        """Return what holds behind a statement that makes it so; None where it may not run, under a condition."""
        return after if before is after or not (self.conditions or self.doubts) else None

    def hand(self, node: ast.AST) -> None:
        """Note that a function or class may be called from now on."""
        self.policies.setdefault(node, self.policy)

    def hand_on(self, *values: SourceValue) -> None:
        """Note that something that is not followed may use the layers behind values, and train the models in them."""
        for value in values:
            kind = type(value)
            if kind in _WITH_TENSORS:
                self.handed.update(source for tensor in tensors_of(value) for source in tensor.sources)
            if kind in _WITH_MODELS:
                self.handed_on[id(value)] = value

    def being(self, **state: Any) -> _Being:
        """Let parts of the state be others for a while; not put back where an error ends the reading."""
        return _Being(self, state)

    def looking(self, env: Env) -> _Being:
        """Only look at what does not run here, with variables of its own."""
        return self.being(aside=True, conditions=self.conditions + 1, env=env)

    def doubting(self, doubts: Doubts) -> _Being:
        """Run statements that may not run, or others in their place."""
        return self.being(doubts=[*self.doubts, doubts] if doubts else self.doubts)

    def branches(self, bodies: list[list[ast.stmt]]) -> Left:
        """Follow branches of which one will be taken; keep what holds in all."""
        env, before, policy = self.env, self.env.vars, self.policy
        ends: list[dict[str, SourceValue]] = []
        lefts: list[Left] = []
        policies: set[str | None] = set()
        with self.being(conditions=self.conditions + 1):
            for body in bodies:
                env.vars, self.policy = dict(before) if body else before, policy
                lefts.append(self.run(body))
                policies.add(self.policy)
                if lefts[-1] is None:
                    ends.append(env.vars)
        self.policy = policy if policies == {policy} else None
        env.vars = before
        changed = [end for end in ends if end is not before]
        for name in {n: None for end in changed for n, value in end.items() if before.get(n) is not value}:
            found = [end.get(name) for end in ends]
            if None not in found and any(value is not found[0] for value in found):
                found = [value.read() if type(value) is Awaited else value for value in found]
            env.vars[name] = one_of(found)
        return None if ends else lefts[0]
