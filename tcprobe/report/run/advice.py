"""Word what to do first: one sentence per item of advice, in the order chosen by the analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe import formatting as f
from tcprobe.report.run import words
from tcprobe.rules.registry import RUN_RULES, rule_of
from tcprobe.rules.run.base import RunSays
from tcprobe.rules.words import Act, listed
from tcprobe.schema.advice import Advice, Bound, Concern, ShareOf
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import as_dict
from tcprobe.visible import columns

MOST_ACTIONS: Final = 3
OF_OPS: Final[Mapping[ShareOf, str]] = {
    "kernel_time": "kernel time",
    "flops": "FLOPs of a step's GEMM-like ops",
    "known_flops": "FLOPs that are known of a step's GEMM-like ops",
}
OF_SIZES: Final[Mapping[ShareOf, str]] = {
    "kernel_time": "kernel time",
    "flops": "GEMM FLOPs",
    "known_flops": "GEMM FLOPs that are known",
}
GAIN_OF: Final[Mapping[ShareOf, str]] = {
    **OF_SIZES,
    "products": "step's products",
    "step": "step",
}
RATES: Final[Mapping[Bound, str]] = {
    "peak rates": "by peak rates ",
    "aligned rates": "by the rates of large products ",
    "tile rates": "by the rates of their tiles ",
}
"""How a bound is called that is none but by rates."""
SAYS: Final[RunSays] = {kind: said for rule in RUN_RULES for kind, said in rule.load().SAYS.items()}


TITLE: Final = "What to do, in full"


def advice_sentences(profile: Profile) -> list[str]:
    """Return what to do first, one sentence per item."""
    return [advice_sentence(item) for item in profile.advice[:MOST_ACTIONS]]


def with_codes(profile: Profile) -> tuple[str, ...]:
    """Return all of it in sentences, each with the code that `tcprobe explain` takes."""
    return tuple(f"{advice_sentence(item)} ({item.code})" for item in profile.advice)


def advice_sentence(item: Advice) -> str:
    """Return one item as a sentence: what to do and how, and why."""
    act = _act(item)
    order = f"{act.title}{': ' if act.ways else ''}{', '.join(act.ways)}"
    at = f" ({_place(item)})" if item.sizes else ""
    return f"{order}{at}. Why: {'; '.join(filter(None, (*act.why, *_why(item))))}.{_beside(item)}"


def headline(item: Advice, room: int | None) -> str:
    """Return what to do, with as many ways as fit in `room` columns; all of them without."""
    title, ways, _ = _act(item)
    for at, one in enumerate(ways):
        longer = f"{title}{', ' if at else ': '}{one}"
        if room is not None and columns(longer) > room:
            break
        title = longer
    return title


def detail(item: Advice) -> str:
    """Return the first reason, or what it concerns."""
    why, place = _act(item).why, _place(item)
    if item.sizes:
        return f"of {place}"
    return why[0] if why else f"costliest: {place}" if place else ""


def _act(item: Advice) -> Act:
    return SAYS[item.kind](item, **dict(item.says.fields))


def _place(item: Advice) -> str:
    """Return the layer or op that an item concerns, its pass and its line; empty where no place is known."""
    where = item.where
    line = f.source_line(where.source) if where.source else None
    return ", ".join(filter(None, (where.layer or where.op, where.pass_ if where.pass_ != "other" else None, line)))


def _beside(item: Advice) -> str:
    """Say which items above draw on the same time: each saving is of the run as it is."""
    return (
        f" Part of {listed(item.beside)}: do not add {'the two' if len(item.beside) == 1 else 'them'}."
        if item.beside
        else ""
    )


def as_json(item: Advice) -> dict[str, Any]:
    """Return one item as its fields and its sentence."""
    found = as_dict(item)
    return {
        "code": item.code,
        "name": rule_of(item.code).name,
        "kind": item.kind,
        **item.figures(),
        "calibrated": item.saving and item.saving.calibrated,
        "may_cost": item.saving and item.saving.may_cost,
        **{key: found[key] for key in ("blocker", "sizes", "effect")},
        **dict.fromkeys(("convolution", "compiled", "listed")),
        **dict(item.says.fields),
        "text": advice_sentence(item),
    }


def _why(item: Advice) -> Iterator[str]:
    """Yield the reasons that do not depend on the rule: what is kept off, what that costs, what a change saves."""
    if item.blocker is not None and not item.sizes:
        yield words.blocker(item.blocker)
    yield f"{_costs(item)}{_bound(item)}"
    yield _gain(item)
    if item.effect is not None and item.effect.kind != "slice":
        yield words.size_advice(item.effect, predicted=item.saving is not None and item.saving.ns.mid > 0)
    if not item.sizes and item.kind != "keep_layout" and (place := _place(item)):  # whose reason names it
        yield f"costliest: {place}"


def _costs(item: Advice) -> str:
    """Return a cost in words: kernel time per step, if known, and its share; empty if the rule itself says it."""
    concern, units = item.concern, OF_SIZES if item.sizes else OF_OPS
    if concern.share_of not in units:
        return ""
    share = f"{f.percent(concern.share_pct)} of the {units[concern.share_of]}"
    if concern.kernel_ns is None:
        return share
    spent = f"{f.duration(concern.kernel_ns)} of kernel time{f' on {concern.gpus} GPUs' if concern.gpus > 1 else ''}"
    if concern.length == "capture":
        return f"{spent}, {share}"
    step = f" of {f.duration(concern.step_ns)}" if concern.step_ns and concern.at_most_ns is None else ""
    return f"{spent} in a step{step}, {share}"


def _bound(item: Advice) -> str:
    """Return what an item can save of a step at most, if only that is known."""
    concern = item.concern
    if concern.at_most_ns is None or item.saving is not None or concern.share_of == "step":
        return ""
    rates = RATES.get(concern.bound, "")
    return f": {rates}at most {f.duration(concern.at_most_ns)} of {_step(concern)}, {f.percent(item.step_pct)}"


def _step(concern: Concern) -> str:
    step = f.duration(concern.step_ns)
    return f"the {step} captured" if concern.length == "capture" else f"a step of {step}"


def _gain(item: Advice) -> str:
    """Return what the change is predicted to save; empty if unknown, of a layer's sizes if unlikely too."""
    saving = item.saving
    if saving is None or max(saving.ns.mid, 0 if item.sizes else saving.ns.high) <= 0:
        return ""
    share, of = saving.pct, GAIN_OF[saving.of]
    if item.step_pct is not None:
        share, of = item.step_pct, "step"
    by = " (calibrated)" if saving.calibrated else ""
    layers = " in this layer" if item.kind == "slice_filters" else " in the layers that it changes"
    saves = f"save {f.range_text(saving.ns)} a step{layers if item.sizes else ''}"
    may_cost = " (it may also cost time)" if saving.may_cost else ""
    likely = f"{f.percent(share)} of the {of}" if saving.ns.mid > 0 else "nothing"
    return f"predicted{by} to {saves}, likely {likely}{may_cost}"


def with_texts(profile: Profile) -> Profile:
    """Fill ``tc_blocker`` of ops and products, ``advice`` of sizes, and ``text`` of what to do.

    Text that the profile already has is kept.
    """
    kept_off, what_to_do = ("tc_blocker", words.blocker_of), ("advice", words.advice_of)
    filled = [
        table.with_columns(**{column: [text(row) for row in table.rows()]})
        for name, (column, text) in {"ops": kept_off, "gemms": kept_off, "bad_sizes": what_to_do}.items()
        if (table := profile.table(name)) is not None
    ]
    if (advice := profile.table("advice")) is not None:
        filled.append(advice.with_columns(text=[advice_sentence(item) for item in profile.advice]))
    return profile.with_tables(*filled)
