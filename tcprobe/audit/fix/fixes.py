"""From findings to fixes: edits of sizes that belong together, made only where nothing else changes with them.

A fix is given where it is certain, in three steps. `wants` follows the size to every argument that must change;
`literals` finds the numbers that those are; `proof` reads the edited file again. Findings whose sizes are the same
literal share one fix. A size that costs nothing on this GPU is left alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tcprobe.audit.fix.activation import split_off, splits
from tcprobe.audit.fix.literals import Numbers
from tcprobe.audit.fix.wants import FixRefusal, NotCertain, Want, Wants, wants_of
from tcprobe.errors import InputError
from tcprobe.rules.model.step import Step
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.source import Source


from typing import TYPE_CHECKING, Any

from tcprobe.audit.fix.text import Read, edited, sound
from tcprobe.schema.model import Layer, Model
from tcprobe.schema.op import Shape

if TYPE_CHECKING:
    from tcprobe.source.source import Source


def check(source: Source, edits: Iterable[Edit], wants: Iterable[Want], read: Read) -> None:
    """See that an edited file parses, and that all its calls and models are the same but for what was wanted.

    Args:
        source: the file.
        edits: of numbers in it.
        wants: arguments of calls in it, each of which is a literal or a name.
        read: returns the models that a file constructs.

    Raises:
        NotCertain: not so.
    """
    own, wanted = list(edits), {want.place: want for want in wants}
    text = edited(source.text, own, source.path)
    if not sound(source.text, text, own):
        raise NotCertain(say("unproven"))
    after = source.edited(text)
    try:
        same = _same_calls(source, after, wanted) and _same_models(read(source), read(after), wanted)
    except InputError:  # it makes more than can be followed
        same = False
    if not same:
        raise NotCertain(say("unproven"))


def _same_calls(before: Source, after: Source, wanted: dict[Place, Want]) -> bool:
    """Say whether every argument of every call has the values that it had, or the one wanted."""
    for old, new in itertools.zip_longest(before.calls(), after.calls()):
        if old is None or new is None or old.arguments.keys() != new.arguments.keys():
            return False
        for name, argument in old.arguments.items():
            want = wanted.get(argument.place)
            values = [_value(known.value, want) for known in before.seen(argument.node)]
            if values != [known.value for known in after.seen(new.arguments[name].node)]:
                return False
    return True


def _same_models(before: Sequence[Model], after: Sequence[Model], wanted: dict[Place, Want]) -> bool:
    """Say whether models have the same layers and products, and nothing known has become unknown."""
    return [_model(model, wanted) for model in before] == [_model(model, {}) for model in after]


def _model(model: Model, wanted: dict[Place, Want]) -> tuple[object, ...]:
    products = [
        (p.layer, p.op, p.calls, p.inputs_from, p.record.op_type, *map(_known, p.record.input_shapes))
        for p in model.products
    ]
    return [_layer(layer, wanted) for layer in model.layers], products, [(u.what, u.reason) for u in model.unseen]


def _layer(layer: Layer, wanted: dict[Place, Want]) -> tuple[object, ...]:
    """Return what must stay of a layer: all but its sizes, with the settings that are wanted in place of its own."""
    places = layer.arguments
    config = {k: _value(v, wanted.get(places[k]) if k in places else None) for k, v in layer.config.items()}
    shapes = [_known(shape) for shape in (*layer.input_shapes, layer.output_shape)]
    kinds = layer.name, layer.kind, layer.class_name, layer.dtype, layer.variable_dtype, layer.trainable
    return *kinds, layer.calls, layer.inputs_from, layer.also_from, layer.is_first, layer.is_last, repr(config), shapes


def _known(shape: Shape | None) -> tuple[bool, ...] | None:
    return None if shape is None else tuple(size is not None for size in shape)


def _value(value: Any, want: Want | None) -> Any:
    """Return the value that an argument must have."""
    return want.new if want is not None and type(value) is int and value == want.old else value


# The proof of a fix: the edited file is read again, and nothing but what was wanted may differ


class _Plan(NamedTuple):
    """What changes together, and the findings that ask for it."""

    wants: list[Want]
    edits: tuple[Edit, ...]
    findings: list[int]


def with_fixes(
    findings: Sequence[Finding], step: Step, sources: Mapping[str, Source], beside: Sequence[Step], read: Read
) -> list[Finding]:
    """Return the findings in their order, with a fix where it is certain; a rule's own fix stays as it is.

    Args:
        findings: of one model.
        step: of the model, with the places of its layers' arguments.
        sources: the files, by absolute path; a layer of another file gets no fix.
        beside: steps of the other models that were audited.
        read: returns the models that a file constructs, which proves a fix.
    """
    from tcprobe.rules.registry import RULES

    fixable = {rule.code for rule in RULES if rule.fixable}
    sized = [i for i, f in enumerate(findings) if f.fix is None and f.suggested is not None and f.code in fixable]
    fixes: dict[int, Fix] = {}
    refused: dict[int, FixRefusal] = {}
    if sized:
        fixes = _Sizes(step, sources, beside, read).fixes({i: findings[i] for i in sized}, refused)
    for index, finding in enumerate(findings):
        if finding.fix is None and splits(finding):
            try:
                fixes[index] = split_off(finding, sources, read)
            except NotCertain as reason:
                refused[index] = reason.why
    return [_with_fix(f, fixes.get(i), refused.get(i)) for i, f in enumerate(findings)]


def _with_fix(finding: Finding, fix: Fix | None, refused: FixRefusal | None) -> Finding:
    """Return a finding with its fix, or with the reason why a warning has none."""
    if fix is not None:
        return replace(finding, fix=fix)
    if refused is None or finding.severity not in ("error", "warning"):
        return finding
    return replace(finding, why=say("no_fix", reason=refused, beside=finding.why))


def _pays(finding: Finding) -> bool:
    """Say whether mending a finding saves anything: no checkpoint is given up for nothing."""
    return finding.severity in ("error", "warning") or (finding.saving_ns is not None and finding.saving_ns.mid > 0)


class _Sizes:
    """Finds the fixes of one model's sizes.

    What the files construct, as their source tells, counts beside the models that were traced: a call may make layers
    of one that was not.
    """

    def __init__(self, step: Step, sources: Mapping[str, Source], beside: Iterable[Step], read: Read) -> None:
        self._step, self._sources, self._read = step, sources, read
        steps = [step, *beside]
        read_already = {other.model.file for other in steps if other.model.mode == "source"}
        files = {layer.place.file for other in steps for layer in other.model.layers if layer.place is not None}
        for file in sorted((files & sources.keys()) - read_already):
            with suppress(InputError):  # what its source does not tell gets no fix
                steps += [Step(model, step.gpu, step.dtype) for model in read(sources[file])]
        self._steps = steps
        self._numbers = {
            file: Numbers(source, [other for name, other in sources.items() if name != file])
            for file, source in sources.items()
        }

    def fixes(self, findings: Mapping[int, Finding], refused: dict[int, FixRefusal]) -> dict[int, Fix]:
        """Return the fix of each finding that has one; `refused` takes the reason of each other."""
        groups: list[tuple[set[Place], list[int]]] = []  # literals, and the findings that rest on them
        wanted: dict[int, Wants] = {}
        for index, finding in findings.items():
            try:
                wanted[index] = wants_of(finding, self._step, self._steps)
                places, members = {self._literal(want) for want in wanted[index].arguments}, [index]
            except NotCertain as reason:
                refused[index] = reason.why
                continue
            for group in [g for g in groups if g[0] & places]:
                groups.remove(group)
                places, members = places | group[0], group[1] + members
            groups.append((places, members))
        plans = []
        for _, members in groups:
            try:
                plans.append(self._plan(members, [wanted[i] for i in members]))
            except NotCertain as reason:
                refused.update(dict.fromkeys(members, reason.why))
        paying = [plan for plan in plans if any(_pays(findings[i]) for i in plan.findings)]
        made = {i: _fix(plan) for plan in self._proven(paying) for i in plan.findings}
        refused.update({i: say("unproven") for plan in paying for i in plan.findings if i not in made})
        return made

    def _literal(self, want: Want) -> Place:
        if want.place.file not in self._numbers:
            raise NotCertain(say("not_literal", argument=want.argument))
        return self._numbers[want.place.file].number(want).place

    def _plan(self, members: list[int], wanted: Sequence[Wants]) -> _Plan:
        wants = sorted({want for one in wanted for want in one.arguments})
        sizes = {size for one in wanted for size in one.sizes}
        edits = [
            edit
            for file, own in itertools.groupby(wants, key=lambda want: want.place.file)
            for edit in self._numbers[file].edits(own, sizes)
        ]
        return _Plan(wants, tuple(sorted(edits, key=lambda edit: edit.place)), members)

    def _proven(self, plans: list[_Plan]) -> list[_Plan]:
        """Return the plans whose edited files come out as wanted: all read at once, one by one where that fails.

        No literal is of two plans, so that what holds for all together holds for each.
        """
        try:
            for file in dict.fromkeys(edit.place.file for plan in plans for edit in plan.edits):
                edits = [edit for plan in plans for edit in plan.edits if edit.place.file == file]
                wants = [want for plan in plans for want in plan.wants if want.place.file == file]
                check(self._sources[file], edits, wants, self._read)
            return plans
        except NotCertain:
            return [plan for plan in plans if len(plans) > 1 and self._proven([plan])]


def _fix(plan: _Plan) -> Fix:
    sizes = dict.fromkeys(say("size_changed", argument=w.argument, old=w.old, new=w.new) for w in plan.wants)
    *others, last = sizes
    return Fix(say("change_sizes", others=tuple(others), last=last), plan.edits)
