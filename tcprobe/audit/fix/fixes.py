"""From findings to fixes: edits of sizes that belong together, made only where nothing else changes with them.

A fix is given where it is certain, in three steps. `links` follows the size through the model to every argument
that must change; `literals` finds the literals that those arguments rest on and chooses their new numbers; the
edited file is read again, and every argument of every call must have the value that it had, or the one asked for.
Findings whose sizes rest on the same literal share one fix. A size that costs nothing on this GPU is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tcprobe.audit.fix.activation import Read, split_off, splits
from tcprobe.audit.fix.beside import reshapes, shared_slots
from tcprobe.audit.fix.head import additions, is_image_head, wanted_of
from tcprobe.audit.fix.links import INNER, FixRefusal, NotCertain, wanted_by
from tcprobe.audit.fix.literals import check, solve, unwanted
from tcprobe.audit.fix.slots import Slot, slots_of
from tcprobe.audit.fix.source.files import Files
from tcprobe.audit.fix.source.shapes import refuse_data
from tcprobe.audit.fix.source.units import seen_lines
from tcprobe.audit.fix.vocabulary import is_vocabulary, vocabulary_slots
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.finding_kinds import FixKind
from tcprobe.schema.model import Model
from tcprobe.schema.place import Place
from tcprobe.schema.statement import Statement, say

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step
    from tcprobe.source.source import Source

_UNPROVEN: Final[FixRefusal] = say("unproven")


@dataclass(frozen=True, slots=True)
class _Plan:
    """What must change together: arguments, and text to add beside them; other sizes that change without either."""

    slots: tuple[Slot, ...]
    added: tuple[Edit, ...] = ()
    sizes: frozenset[int] = frozenset()

    def joined(self, others: Iterable[_Plan]) -> _Plan:
        """Return this plan and others as one.

        Raises:
            NotCertain: they want one argument to be two numbers.
        """
        slots = {slot.key: slot for slot in self.slots}
        added, sizes = dict.fromkeys(self.added), set(self.sizes)
        for other in others:
            for slot in other.slots:
                if slots.setdefault(slot.key, slot).new != slot.new:
                    raise NotCertain(say("argument_of_two_numbers"))
            added.update(dict.fromkeys(other.added))
            sizes |= other.sizes
        return _Plan(tuple(slots.values()), tuple(added), frozenset(sizes))

    def edits(self) -> tuple[Edit, ...]:
        """Return all edits, in the order of their places."""
        return tuple(sorted((*solve(self.slots), *self.added), key=lambda e: e.place))


@dataclass(frozen=True, slots=True)
class _Scene:
    """What a fix must fit: the model of its finding, the others that were audited, and the files."""

    step: Step
    beside: tuple[Step, ...]
    files: Files
    seen: frozenset[tuple[str, int]]

    @property
    def model(self) -> Model:
        return self.step.model


def with_fixes(
    findings: Sequence[Finding],
    model: Model,
    step: Step,
    sources: Mapping[str, Source],
    beside: Sequence[Step] = (),
    read: Read | None = None,
) -> list[Finding]:
    """Return the findings in their order, with a fix where it is certain; a rule's own fix stays as it is.

    Args:
        findings: of one model.
        model: with the places of its layers' arguments.
        step: tells which sizes are linked.
        sources: the files, by absolute path; a layer of another file gets no fix.
        beside: steps of the other models that were audited; code that builds none of them is not changed.
        read: returns the models that a file constructs, which proves what changes more than sizes.
    """
    from tcprobe.rules.registry import RULES

    fixable = {rule.DOC.code for rule in RULES if rule.DOC.fixable}
    models = (model, *(other.model for other in beside))
    scene = _Scene(step, tuple(beside), Files(sources), seen_lines(models))
    plans: dict[int, _Plan] = {}
    refused: dict[int, FixRefusal] = {}
    own: dict[int, Fix] = {}
    for index, finding in enumerate(findings):
        if finding.fix is None and finding.suggested is not None and finding.code in fixable:
            try:
                plans[index] = _plan(finding, scene)
            except NotCertain as reason:
                refused[index] = reason.why
        elif finding.fix is None and splits(finding):
            try:
                own[index] = split_off(finding, scene.files, read)
            except NotCertain as reason:
                refused[index] = reason.why
    fixes = {**own, **_fixes(plans, {i for i in plans if _pays(findings[i])}, scene, refused)}
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


def _plan(finding: Finding, scene: _Scene) -> _Plan:
    model, step, files = scene.model, scene.step, scene.files
    layer = model.layer(finding.layer)
    if layer is not None and is_image_head(finding, model):
        wanted = wanted_of(finding, layer)
        return _Plan(slots_of(wanted, model, files), additions(finding, layer, files))
    if is_vocabulary(finding):
        return _Plan(vocabulary_slots(finding, step, scene.beside, files))
    slots = slots_of(wanted_by(finding, model, step), model, files)
    if finding.dimension in INNER:
        return _Plan(slots)
    changes = step.linked(str(finding.layer), str(finding.dimension), finding.size or 0, finding.suggested or 0)
    sizes = frozenset(c.old for c in changes)
    refuse_data({*sizes, *(slot.old for slot in slots)}, model, [files.shapes(path) for path in files.sources])
    more = (*reshapes(changes, slots, step, files), *shared_slots(slots, scene.beside, files))
    return _Plan(slots, (), sizes).joined([_Plan(more)])


def _fixes(
    plans: Mapping[int, _Plan], paying: set[int], scene: _Scene, refused: dict[int, FixRefusal]
) -> dict[int, Fix]:
    """Return the fix of each finding; those that share a literal have the same one, where one of them pays.

    `refused` takes the reason of each that has none.
    """
    owners: dict[Place, list[_Plan]] = {}
    for plan in plans.values():
        for place in {slot.argument.place for slot in plan.slots}:
            owners.setdefault(place, []).append(plan)
    grown: dict[int, _Plan] = {}
    for index, plan in plans.items():
        try:
            grown[index] = _grown(plan, owners, scene)
        except NotCertain as reason:
            refused[index] = reason.why
    files = scene.files
    groups = [(members, _together(grown, members, files)) for members in _sharing(grown)]
    proven = _proven([whole for members, whole in groups if whole and paying.intersection(members)], files)
    told = {id(whole): Fix(_told(whole), whole.edits()) for whole in proven}
    refused.update({m: _UNPROVEN for members, whole in groups if id(whole) not in told for m in members})
    return {m: told[id(whole)] for members, whole in groups if id(whole) in told for m in members}


def _grown(plan: _Plan, owners: Mapping[Place, list[_Plan]], scene: _Scene) -> _Plan:
    """Return a plan with those of all arguments that its literals reach as well.

    Raises:
        NotCertain: an argument changes with it that no finding wants changed, or code that was not audited.
    """
    while extra := unwanted(plan.slots, plan.edits(), plan.sizes, scene.files):
        plan = plan.joined(_owning(extra, owners))
    for file in {slot.source.path for slot in plan.slots}:
        literals = [edit.place for edit in solve(plan.slots) if edit.place.file == file]
        scene.files.units(file).refuse_unseen(literals, scene.seen)
    return plan


def _owning(places: Iterable[Place], owners: Mapping[Place, list[_Plan]]) -> Iterator[_Plan]:
    for place in places:
        if place not in owners:
            raise NotCertain(say("used_otherwise"))
        yield from owners[place]


def _proven(plans: list[_Plan], files: Files) -> list[_Plan]:
    """Return the plans whose edited files come out as wanted: all read at once, one by one where that fails.

    No argument rests on literals of two plans, so that what holds for all together holds for each.
    """
    try:
        whole = _Plan(()).joined(plans)
        check(whole.slots, whole.edits(), files)
        return plans
    except NotCertain:
        return [plan for plan in plans if len(plans) > 1 and _proven([plan], files)]


def _sharing(plans: Mapping[int, _Plan]) -> list[list[int]]:
    """Return the indexes of the plans, those that edit the same literal together."""
    groups: dict[int, list[int]] = {}  # by the last plan that joined
    held: dict[int, list[Place]] = {}
    owner: dict[Place, int] = {}
    for index, plan in plans.items():
        places, members = [edit.place for edit in plan.edits()], [index]
        for group in sorted({owner[place] for place in places if place in owner}):
            members = groups.pop(group) + members
            places += held.pop(group)
        held[index] = list(dict.fromkeys(places))
        groups[index] = members
        owner.update(dict.fromkeys(held[index], index))
    return list(groups.values())


def _together(plans: Mapping[int, _Plan], members: list[int], files: Files) -> _Plan | None:
    """Return plans that share a literal as one; None where they do not go together."""
    try:
        whole = _Plan(()).joined(plans[member] for member in members)
        return None if len(members) > 1 and unwanted(whole.slots, whole.edits(), whole.sizes, files) else whole
    except NotCertain:
        return None


def _told(plan: _Plan) -> Statement[FixKind]:
    """Return what a plan does."""
    slots = sorted(plan.slots, key=lambda s: s.argument.place)
    sizes = dict.fromkeys(say("size_changed", argument=s.argument.name, old=s.old, new=s.new) for s in slots)
    *others, last = sizes
    return say("change_sizes", others=tuple(others), last=last, keeps_first=bool(plan.added))
