"""From findings to fixes: edits of sizes that belong together, made only where nothing else changes with them.

A fix is given where it is certain, in three steps. `wants` follows the size to every argument that must change and
finds the literals that those are; `check` reads the edited file again. Findings whose sizes are the same literal share
one fix. A size that costs nothing on this GPU is left alone. A softmax inside the last layer is split off to compute in
float32: the layer itself stays on the Tensor Cores.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from tcprobe.audit.fix.wants import FixRefusal, NotCertain, Numbers, Read, Want, wants_of
from tcprobe.audit.fix.write import edited
from tcprobe.errors import InputError
from tcprobe.rules.model.step import Step
from tcprobe.rules.precision.dtypes import SPLIT
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.model import Layer, Model, Place
from tcprobe.schema.op import Shape
from tcprobe.schema.statement import About, say

if TYPE_CHECKING:
    from tcprobe.source.calls import Call
    from tcprobe.source.source import Source

_COUNTS: Final = re.compile(r"\.layers\s*\[|\bget_layer\b|\.pop\b")
"""Code that takes layers of a model by number or name."""


def splits(finding: Finding) -> bool:
    """Say whether a finding asks for an activation to be split off."""
    return finding.says.kind == SPLIT


def split_off(finding: Finding, sources: Mapping[str, Source], read: Read) -> Fix:
    """Return the fix: the activation leaves the call, and follows as a layer of its own in float32.

    The edited file is read again: it must have the same layers in the same dtypes, but for these two.

    Args:
        finding: one that `splits`.
        sources: the files that may be edited, by absolute path.
        read: returns the models that a file constructs, which proves the fix.

    Raises:
        NotCertain: the layer stands neither in a Sequential's list nor in a call, or its activation elsewhere; or code
            counts on the layers that are there.
    """
    source = sources.get(finding.place.file) if finding.place is not None else None
    edits = _edits(source, finding.place) if source is not None and not _COUNTS.search(source.text) else None
    if source is None or edits is None:
        raise NotCertain(say("not_split"))
    if not _is_proven(source, edits, read):
        raise NotCertain(say("unproven"))
    about = About(finding.layer_class or "", finding.layer or "")
    return Fix(say("activation_split", activation=finding.says.get("activation"), subject=about), edits, safe=True)


def _edits(source: Source, place: Place | None) -> tuple[Edit, ...] | None:
    """Return the edits that split the keyword ``activation`` at a place off its call; None where they are not known."""
    for call in source.calls():
        given = next((k for k in call.node.keywords if k.arg == "activation"), None)
        if given is not None and source.place(given.value) == place and "dtype" not in call.arguments:
            return _moved(source, call, given)
    return None


def _moved(source: Source, call: Call, given: ast.keyword) -> tuple[Edit, ...] | None:
    """Return the edits that take an activation out of a call, with the comma before it, and put a layer behind."""
    parts, name = [*call.node.args, *call.node.keywords], _beside(source, call)
    spread = any(isinstance(part, ast.Starred) or getattr(part, "arg", "") is None for part in parts)
    if parts[0] is given or name is None or spread:
        return None
    gap = _between(source.place(parts[parts.index(given) - 1]), source.place(given))
    dropped = Edit(gap, source.segment(gap), "")
    text = f'{name}({source.segment(source.place(given.value))}, dtype="float32")'
    around = next(node for node in ast.walk(source.tree) if call.node in ast.iter_child_nodes(node))
    match around:
        case ast.Call(func=called, args=[_, *_], keywords=[]) if called is call.node:
            start, end = source.place(around), _end(source.place(around))
            first = replace(start, end_line=start.line, end_column=start.column)
            edits: tuple[Edit, ...] = Edit(first, "", f"{text}("), dropped, Edit(end, "", ")")
        case ast.List() if _is_sequential(source, around):
            edits = dropped, Edit(_end(source.place(call.node)), "", f", {text}")
        case _:
            return None
    return edits if "#" not in dropped.before else None


def _beside(source: Source, call: Call) -> str | None:
    """Return how to write ``Activation`` where a layer's own class is written so; None where it is not imported."""
    if isinstance(call.node.func, ast.Attribute):
        return f"{ast.unparse(call.node.func.value)}.Activation"
    imports = (n for n in source.tree.body if isinstance(n, ast.ImportFrom) and (n.module or "").endswith("layers"))
    found = any((alias.name, alias.asname) == ("Activation", None) for node in imports for alias in node.names)
    return "Activation" if found else None


def _is_sequential(source: Source, listed: ast.List) -> bool:
    """Say whether a list is that of a Sequential's layers."""
    calls = (call for call in source.calls() if call.name == "keras.Sequential")
    return any(argument.node is listed for call in calls for argument in call.arguments.values())


def _end(place: Place) -> Place:
    return _between(place, place)


def _between(before: Place, after: Place) -> Place:
    """Return the text from the end of one place to that of another behind it."""
    line, column = before.end_line or before.line, before.end_column or before.column
    return replace(after, line=line, column=column)


def _is_proven(source: Source, edits: tuple[Edit, ...], read: Read) -> bool:
    """Say whether the edited file has the same layers, the last one's activation apart."""
    after = source.edited(edited(source.text, edits, source.path))
    before, behind = ([layer for model in read(one) for layer in model.layers] for one in (source, after))
    added = [layer for layer in behind if layer.kind == "Activation" and layer.is_last and layer.dtype == "float32"]
    names = [layer.inputs_from for layer in added]
    mine = [layer for layer in before if layer.is_last and layer.calls == 1 and (layer.name,) in names]
    if len(mine) != 1 or len(added) - sum(layer in before for layer in added) != 1:
        return False
    (own,) = mine
    wanted = [replace(x, config={**x.config, "activation": None}, is_last=False) if x is own else x for x in before]
    left = [layer for layer in behind if layer.inputs_from != (own.name,)]
    return [_essence(layer) for layer in left] == [_essence(layer) for layer in wanted]


def _essence(layer: Layer) -> tuple[object, ...]:
    settings = sorted((name, repr(value)) for name, value in layer.config.items() if value is not None)
    return layer.kind, layer.dtype, layer.input_shapes, layer.output_shape, layer.is_last, tuple(settings)


class _Plan(NamedTuple):
    """What changes together, and the findings that ask for it."""

    literals: set[Place]
    wants: set[Want]
    sizes: set[int]
    findings: list[int]
    edits: tuple[Edit, ...] = ()


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
    sized = {i: f for i, f in enumerate(findings) if f.fix is None and f.suggested is not None and f.code in fixable}
    refused: dict[int, FixRefusal] = {}
    fixes = _of_sizes(sized, step, sources, beside, read, refused) if sized else {}
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


def _of_sizes(
    findings: Mapping[int, Finding],
    step: Step,
    sources: Mapping[str, Source],
    beside: Iterable[Step],
    read: Read,
    refused: dict[int, FixRefusal],
) -> dict[int, Fix]:
    """Return the fix of each finding that has one; `refused` takes the reason of each other."""
    steps = _all_steps([step, *beside], sources, read)
    numbers = {
        file: Numbers(source, [other for name, other in sources.items() if name != file])
        for file, source in sources.items()
    }
    groups: list[_Plan] = []
    for index, finding in findings.items():
        try:
            wants = wants_of(finding, step, steps)
            literals = {_literal(want, numbers) for want in wants.arguments}
        except NotCertain as reason:
            refused[index] = reason.why
            continue
        plan = _Plan(literals, set(wants.arguments), wants.sizes, [index])
        for other in [group for group in groups if group.literals & plan.literals]:
            groups.remove(other)
            members = other.findings + plan.findings
            plan = _Plan(plan.literals | other.literals, plan.wants | other.wants, plan.sizes | other.sizes, members)
        groups.append(plan)
    plans = []
    for plan in groups:
        try:
            by_file = itertools.groupby(sorted(plan.wants), key=lambda want: want.place.file)
            edits = [edit for file, own in by_file for edit in numbers[file].edits(own, plan.sizes)]
            if any(_pays(findings[i]) for i in plan.findings):
                plans.append(plan._replace(edits=tuple(sorted(edits, key=lambda edit: edit.place))))
        except NotCertain as reason:
            refused.update(dict.fromkeys(plan.findings, reason.why))
    made = {i: _fix(plan) for plan in _proven(plans, sources, read) for i in plan.findings}
    refused.update({i: say("unproven") for plan in plans for i in plan.findings if i not in made})
    return made


def _all_steps(steps: list[Step], sources: Mapping[str, Source], read: Read) -> list[Step]:
    """Return steps with those that the source tells of: a call may make layers of a model that was not traced."""
    there = {step.model.file for step in steps if step.model.mode == "source"}
    files = {layer.place.file for step in steps for layer in step.model.layers if layer.place is not None}
    more: list[Step] = []
    for file in sorted((files & sources.keys()) - there):
        with suppress(InputError):  # what its source does not tell gets no fix
            more += [Step(model, steps[0].gpu, steps[0].dtype) for model in read(sources[file])]
    return [*steps, *more]


def _literal(want: Want, numbers: Mapping[str, Numbers]) -> Place:
    if want.place.file not in numbers:
        raise NotCertain(say("not_literal", argument=want.argument))
    return numbers[want.place.file].number(want)[0]


def _pays(finding: Finding) -> bool:
    """Say whether mending a finding saves anything: no checkpoint is given up for nothing."""
    return finding.severity in ("error", "warning") or (finding.saving_ns is not None and finding.saving_ns.mid > 0)


def _fix(plan: _Plan) -> Fix:
    wants = sorted(plan.wants)
    *others, last = dict.fromkeys(say("size_changed", argument=w.argument, old=w.old, new=w.new) for w in wants)
    return Fix(say("change_sizes", others=tuple(others), last=last), plan.edits)


# The proof of a fix: the edited file is read again, and nothing but what was wanted may differ


def _proven(plans: list[_Plan], sources: Mapping[str, Source], read: Read) -> list[_Plan]:
    """Return the plans whose edited files come out as wanted: all read at once, one by one where that fails.

    No literal is of two plans, so that what holds for all together holds for each.
    """
    edits, wants = [e for plan in plans for e in plan.edits], [w for plan in plans for w in plan.wants]
    try:
        for file in dict.fromkeys(edit.place.file for edit in edits):
            check(sources[file], [e for e in edits if e.place.file == file], wants, read)
        return plans
    except NotCertain:
        return [plan for plan in plans if len(plans) > 1 and _proven([plan], sources, read)]


def check(source: Source, edits: Iterable[Edit], wants: Iterable[Want], read: Read) -> None:
    """See that an edited file parses, and that all its calls and models are the same but for what was wanted.

    Args:
        source: the file.
        edits: of numbers in it.
        wants: arguments of calls, each of which is a literal or a name.
        read: returns the models that a file constructs.

    Raises:
        NotCertain: not so.
    """
    wanted = {want.place: want for want in wants}
    try:
        after = source.edited(edited(source.text, edits, source.path))
        same = _same_calls(source, after, wanted)
        same = same and [_model(m, wanted) for m in read(source)] == [_model(m, {}) for m in read(after)]
    except InputError:  # it is no Python any more, or makes more than can be followed
        same = False
    if not same:
        raise NotCertain(say("unproven"))


def _same_calls(before: Source, after: Source, wanted: dict[Place, Want]) -> bool:
    """Say whether every argument of every call has the values that it had, or the one wanted."""
    for old, new in itertools.zip_longest(before.calls(), after.calls()):
        if old is None or new is None or old.arguments.keys() != new.arguments.keys():
            return False
        for name, argument in old.arguments.items():
            values = [_value(known.value, wanted.get(argument.place)) for known in before.seen(argument.node)]
            if values != [known.value for known in after.seen(new.arguments[name].node)]:
                return False
    return True


def _model(model: Model, wanted: dict[Place, Want]) -> tuple[object, ...]:
    """Return what must stay of a model: all but sizes that are known."""
    products = [
        (p.layer, p.op, p.calls, p.inputs_from, p.record.op_type, *map(_known, p.record.input_shapes))
        for p in model.products
    ]
    return [_layer(layer, wanted) for layer in model.layers], products, [(u.what, u.reason) for u in model.unseen]


def _layer(layer: Layer, wanted: dict[Place, Want]) -> list[object]:
    """Return what must stay of a layer: all but its sizes, with the settings that are wanted in place of its own."""
    places = layer.arguments
    config = {k: _value(v, wanted.get(places[k]) if k in places else None) for k, v in layer.config.items()}
    shapes = [_known(shape) for shape in (*layer.input_shapes, layer.output_shape)]
    sized = ("place", "config", "arguments", "input_shapes", "output_shape", "samples")
    return [repr(config), shapes, *(getattr(layer, n) for n in layer.__struct_fields__ if n not in sized)]


def _known(shape: Shape | None) -> tuple[bool, ...] | None:
    return None if shape is None else tuple(size is not None for size in shape)


def _value(value: Any, want: Want | None) -> Any:
    """Return the value that an argument must have."""
    return want.new if want is not None and type(value) is int and value == want.old else value
