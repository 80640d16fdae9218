"""What a browser draws of a run: the first screen in its pieces, shares as rings, steps as bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from tcprobe import formatting as f
from tcprobe.report.document import First, Task
from tcprobe.report.drawn import Branch, Column, Columns, Part, Ring, Rings, Tree
from tcprobe.report.run import figures, screen
from tcprobe.report.run.advice import detail, headline
from tcprobe.report.run.bar import MOST_ROWS, labelled, parts_text, shares_of, title_of
from tcprobe.report.run.ranks import rank_lines
from tcprobe.report.run.verdict import ROW_WORDS
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import FirstScreen, RowKind

MOST_BARS: Final = 300
MOST_CHOSEN: Final = 20_000  # steps among which a page lets the reader choose: about 1 MB
DEEPEST: Final = 8  # layers in layers that are drawn
SMALLEST_PCT: Final = 0.3  # of the tree: what is drawn of it
ELSEWHERE: Final = "not on Tensor Cores"
LEFT_OUT: Final[dict[Value, str]] = {"warm-up": "warm-up", "after": "tail"}
KINDS_OF_STEP: Final = ("duration", "sum", "union", "tc", "off", "unknown", "copy")
BESIDE: Final = ("step_time_ns", "throughput", "achieved_tflop_per_s", "peak_pct", "mfu_pct", "coverage_pct")
"""Figures beside the rings."""
OF_CHOSEN: Final = ("tc_kernel_time_pct", "gpu_busy_pct", "step_time_ns", "window_ns", "kernel_time_ns", "kernels")
"""Figures that follow from the table of iterations, whichever of them are chosen."""
BY_STEP: Final = ("iteration", "steps", "span_ns", "busy_ns", "launches", "sum_ns", "tc_ns", "unknown_ns")


def first_of(profile: Profile) -> First | None:
    """Return the first screen in its pieces; None where there is none."""
    found = profile.screen
    if found is None:
        return None
    answer, bar = found.answer, found.bar
    return First(
        tuple(screen.head_of(profile, found)),
        screen.verdict_of(found).replace("\n", " ").partition(answer.word),
        screen.WORD_STYLES.get(answer.word, "strong"),
        tuple(screen.further_of(profile, found)),
        "" if bar is None else title_of(bar),
        "" if bar is None else f.duration(bar.total_ns),
        tuple(parts_of(found)),
        (*rank_lines(profile, MOST_ROWS), *screen.predicted_lines(found)),
        tuple(_tasks(found)),
        "" if found.items else screen.nothing_to_do(found) or "",
        screen.left_text(found),
        screen.sure_of(found),
    )


def parts_of(found: FirstScreen) -> Iterator[Part]:
    """Yield the parts of the bar of a first screen."""
    if (bar := found.bar) is None:
        return
    rows = labelled(found, bar, MOST_ROWS)
    for (label, row), share in zip(rows, shares_of(bar, rows), strict=True):
        told = parts_text(row) if row.kind in ("used", "others") and row.pct >= screen.DETAILED_PCT else ""
        yield Part(label, row.pct, row.kind, f.duration(row.ns), share, told)


def _tasks(found: FirstScreen) -> Iterator[Task]:
    shares = screen.shares_by_time(found, MOST_ROWS)
    for item in found.items:
        saves = tuple((head, f.duration(ns)) for head, ns in screen.savings(item).items())
        why = "; ".join(filter(None, (detail(item.advice), screen.also_of(item))))
        source = item.advice.where.source
        place = "" if source is None else f.source_line(source)
        share = screen.share_of(item, found, shares)
        yield Task(headline(item.advice, None), saves, share, item.advice.code, why, "" if place in why else place)


def rings_of(profile: Profile) -> Rings | None:
    """Return the shares that rings can show, and the figures beside them; None where there are none."""
    rings = [
        _ring(profile, "tc_kernel_time_pct", ("used", ROW_WORDS["used"]), ("others", ELSEWHERE)),
        _ring(profile, "tc_capable_time_pct", ("used", ROW_WORDS["used"]), ("off", ROW_WORDS["off"])),
        _ring(profile, "gpu_busy_pct", ("kernels", "kernels run"), ("idle", "no kernel runs")),
    ]
    rows = ((metric, profile.figure(metric)) for metric in BESIDE)
    told = tuple((figures.label(name), figures.value_text(name, row)) for name, row in rows if row and _has(row))
    made = Rings(tuple(ring for ring in rings if ring is not None), told)
    return made if made.rings or made.figures else None


def _has(row: Row) -> bool:
    return any(row[column] is not None for column in ("value", "low", "high"))


def _ring(profile: Profile, metric: str, share: tuple[RowKind, str], rest: tuple[RowKind, str]) -> Ring | None:
    """Return a share and what is left; of kernels a share of unknown class lies between the two."""
    row = profile.figure(metric)
    if row is None or not _has(row):
        return None
    of_kernels = metric != "gpu_busy_pct"  # whose range is that over GPUs
    low, high = (row[c] if of_kernels and row[c] is not None else row["value"] for c in ("low", "high"))
    if low is None or high is None:
        return None
    ends = (0.0, float(low), float(high), 100.0)
    told = zip((share, ("unknown", ROW_WORDS["unknown"]), rest), ends, ends[1:], strict=False)
    parts = tuple(Part(what, end - start, kind, "", f.percent(end - start)) for (kind, what), start, end in told)
    return Ring(figures.label(metric), figures.value_text(metric, row), tuple(part for part in parts if part.pct > 0))


class _Kind(NamedTuple):
    """One kind of time of a step, over all steps."""

    tone: RowKind
    label: str
    ns: np.ndarray


def steps_of(profile: Profile) -> Columns | None:
    """Return the steps of the profile as bars: what ran on a GPU and how long none did; None of less than two.

    Kernels that ran at once share their time, as in the bar of the first screen; of several GPUs it is the mean.
    """
    table = profile.require("iterations")
    if len(table) < 2:
        return None
    counted = table.numbers("in_window").astype(bool)
    spent = {c: table.numbers(f"{c}_ns").astype(np.float64) for c in KINDS_OF_STEP}
    if np.isnan(spent["sum"]).all():
        kinds = [_Kind("idle", "the step, of whose kernels nothing is known", spent["duration"])]
    else:
        kinds = _kinds(spent, profile.busiest_gpu[0])
    numbers = table.values("iteration")
    start, stop = _shown(counted)
    timed = ~np.isnan(spent["duration"])
    whole = np.sum([np.nan_to_num(kind.ns[start:stop]) for kind in kinds], axis=0)
    chosen = (counted & timed)[start:stop]
    highest = float(np.max(whole[chosen] if chosen.any() else whole, initial=0.0))
    if highest <= 0:
        return None
    cut = ("Higher bars are cut.",) if whole.max() > highest else ()
    bare = timed[start:stop].all() or np.isnan(spent["sum"]).all()
    grey = () if bare else ("In grey, kernels alone: the length is unknown.",)
    many = ("They are too many to choose others here: --iter-start and --iter-stop do.",)
    few = len(table) <= MOST_CHOSEN
    notes = " ".join((*_counts(profile, stop - start), *cut, *grey, *(() if few else many)))
    bars = tuple(_bar(kinds, at, str(numbers[at]), bool(counted[at]), bool(timed[at])) for at in range(start, stop))
    legend = tuple((kind.tone, kind.label) for kind in kinds)
    others = _chosen(profile) if few else None
    return Columns("Iterations", bars, legend, highest, f.duration(highest), (notes,), others)


def _chosen(profile: Profile) -> dict[str, Any] | None:
    """Return the iterations for a script, with the figures that they tell of any of them and how; None where of none.

    The length of a step is that of the chosen ones where marks alone tell it, and the same for every choice where the
    run's own clock does. Of several phases or ranks no page can tell it.
    """
    table = profile.require("iterations")
    columns = {name: [None if v != v else int(v) for v in table.numbers(name).tolist()] for name in BY_STEP}
    known = {name: row for name in OF_CHOSEN if (row := profile.figure(name)) and _has(row)}
    if not known:
        return None
    step, steps = known.get("step_time_ns"), profile.require("steps")
    told = None if profile.table("ranks") is not None or len(steps) else ""
    clocked = not np.isnan(steps.numbers("duration_ns")).all()
    if step and clocked and len(profile.require("phases")) < 2:
        told = figures.value_text("step_time_ns", step)
    return {
        "columns": {name: values for name, values in columns.items() if any(v is not None for v in values)},
        "timed": (~np.isnan(table.numbers("duration_ns"))).astype(int).tolist(),
        "counted": [int(at[0]), int(at[-1])] if len(at := np.flatnonzero(table.numbers("in_window"))) else [],
        "labels": {name: figures.label(name) for name in known},
        "gpus": len(profile.active_gpus),
        "step": told,  # of every choice; empty where the chosen ones tell, None where neither does
    }


def _kinds(spent: dict[str, np.ndarray], gpus: int) -> list[_Kind]:
    with np.errstate(divide="ignore", invalid="ignore"):
        ran = np.where(np.isnan(spent["union"]), spent["sum"], spent["union"]) / gpus
        of = {name: np.nan_to_num(ran * spent[name] / spent["sum"]) for name in ("tc", "off", "unknown")}
    others = np.maximum(np.nan_to_num(ran) - of["tc"] - of["off"] - of["unknown"], 0)
    copies = np.nan_to_num(spent["copy"]) / gpus
    idle = np.maximum(np.nan_to_num(spent["duration"] - np.nan_to_num(ran)) - copies, 0)  # 0 too of unknown lengths
    judged = not np.isnan(spent["off"]).all()
    made = [
        _Kind("used", ROW_WORDS["used"], of["tc"]),
        _Kind("off", ROW_WORDS["off"], of["off"]),
        _Kind("unknown", ROW_WORDS["unknown"], of["unknown"]),
        _Kind("others", ROW_WORDS["others"] if judged else ELSEWHERE, others),
        _Kind("copy", ROW_WORDS["copy"], copies),
        _Kind("idle", ROW_WORDS["idle"] if copies.any() else "no kernel runs", idle),
    ]
    return [kind for kind in made if kind.ns.any()]


def _shown(counted: np.ndarray) -> tuple[int, int]:
    """Return which steps have a bar: all, or as many as there is room for, from shortly before those that count."""
    first = int(np.argmax(counted)) if counted.any() else 0
    start = max(0, min(first - MOST_BARS // 10, len(counted) - MOST_BARS))
    return start, min(len(counted), start + MOST_BARS)


def _bar(kinds: list[_Kind], at: int, number: str, counted: bool, timed: bool) -> Column:
    """Return the bar of a step; one of unknown length has its kernels alone, in the grey of those that do not count."""
    parts = tuple((kind.tone, 0.0 if np.isnan(kind.ns[at]) else float(kind.ns[at])) for kind in kinds)
    said = ", ".join(f"{kind.label} {f.duration(ns)}" for kind, (_, ns) in zip(kinds, parts, strict=True) if ns)
    unknown = () if timed else ("length unknown",)
    told = "; ".join((*unknown, *([said] if said else []))) or "nothing recorded"
    return Column(f"{number}{'' if counted else ', left out'}: {told}", counted and timed, parts)


def _counts(profile: Profile, shown: int) -> tuple[str, ...]:
    """Return which iterations count, and which do not and why."""
    rows = list(profile.require("iterations").rows())
    at = [place for place, row in enumerate(rows) if row["in_window"]]
    few = () if shown == len(rows) else (f"{shown:,} of {len(rows):,} are drawn.",)
    if not at:
        return ("None counts.", *few)
    ends, kinds = (("before", rows[: at[0]]), ("after", rows[at[-1] + 1 :])), _kinds_of_steps(profile)
    left = ", ".join(
        f"{_span(part)} {where}{_named(kinds.get(row['iteration']) for row in part)}" for where, part in ends if part
    )
    counted = f"Counted: {_span(rows[at[0] : at[-1] + 1])}."
    return (counted, *((f"Left out: {left}.",) if left else ()), *few)


def _kinds_of_steps(profile: Profile) -> dict[Value, Value]:
    """Return where each step stands, of a run that tells."""
    steps = profile.require("steps")
    return dict(zip(steps.values("step"), steps.values("kind"), strict=True))


def _named(kinds: Iterable[Value]) -> str:
    """Return what successive steps are, in brackets, where all are the same and have a name."""
    found = set(kinds)
    word = LEFT_OUT.get(found.pop()) if len(found) == 1 else None
    return f" ({word})" if word else ""


def _span(rows: list[Row]) -> str:
    first, last = rows[0]["iteration"], rows[-1]["iteration"]
    return str(first) if first == last else f"{first} to {last}"


class _Spent(Struct):
    """Kernel time of a layer with those in it."""

    ns: float = 0.0
    tc_ns: float = 0.0
    unknown_ns: float = 0.0
    inner: dict[str, _Spent] = field(default_factory=dict)


def tree_of(profile: Profile) -> Tree | None:
    """Return the layers by kernel time, those in a layer below it; None of less than two."""
    whole = _Spent()
    for row in profile.require("layers").rows():
        if not row["sum_ns"] or row["tc_ns"] is None:
            continue
        node = whole
        for part in (None, *str(row["layer"]).split("/", DEEPEST - 1)):
            node = node if part is None else node.inner.setdefault(part, _Spent())
            node.ns += float(row["sum_ns"])
            node.tc_ns += float(row["tc_ns"])
            node.unknown_ns += float(row["unknown_ns"] or 0)
    branches = tuple(_branches(whole, whole.ns, 0, 0.0))
    if len(branches) < 2:
        return None
    note = "As wide as their kernel time; green is the share of it on Tensor Cores. Layers below 0.3 % are not drawn."
    return Tree("Layers by kernel time", branches, 1 + max(branch.depth for branch in branches), (note,))


def _branches(node: _Spent, total: float, depth: int, start: float) -> Iterator[Branch]:
    for name, part in sorted(node.inner.items(), key=lambda item: (-item[1].ns, item[0])):
        pct, on = 100.0 * part.ns / total, 100.0 * part.tc_ns / part.ns
        if pct < SMALLEST_PCT:
            return
        share = f.percents(on, min(100.0, on + 100.0 * part.unknown_ns / part.ns))
        text = f"{name}: {f.duration(part.ns)}, {f.percent(pct)} of the kernel time, {share} of it on Tensor Cores"
        yield Branch(name, text, depth, start, pct, on / 100.0)
        yield from _branches(part, total, depth + 1, start)
        start += pct
