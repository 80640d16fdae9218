"""Lay the first screen out: at most 22 lines of 80 columns, the same on a terminal, in a pipe and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tcprobe import formatting as f
from tcprobe.report.document import Screen, Style, TextLine, TextPart, line_of
from tcprobe.report.run import about, verdict
from tcprobe.report.run.advice import detail as reason_of
from tcprobe.report.run.advice import headline
from tcprobe.report.run.bar import (
    LABEL,
    MOST_ROWS,
    as_rows,
    labelled,
    parts_text,
    rest_pct,
    rows_of,
    shares_of,
    title_of,
)
from tcprobe.report.run.ranks import rank_lines
from tcprobe.report.sentences import gpu_of
from tcprobe.rules.words import listed
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import as_dict
from tcprobe.schema.screen import (
    FirstScreen,
    Item,
    PredictedStep,
    RowKind,
    VerdictWord,
)
from tcprobe.visible import columns, shown

WIDTH: Final = 80
NARROWEST: Final = 40
MOST_LINES: Final = 22
LEFT: Final = 35  # columns of the left half of the head
BAR: Final = 24  # characters of the bar
FIGURE: Final = 10  # columns of a time
TIME: Final = 64  # column at which times end, of rows and of what is saved
SHARE: Final = 7  # columns of a share
DETAILED_PCT: Final = 10.0  # of the bar: a row from here on says what its kernels do
LEAST_NAME: Final = 12  # columns of a name in brackets: one with less room goes
STYLES: Final[dict[RowKind, Style]] = {"used": "good", "off": "bad", "misaligned": "bad", "slowly": "bad"}
WORD_STYLES: Final[dict[VerdictWord, Style]] = {
    "GOOD": "good", "NOT USED": "bad", "WAITING": "bad", "MISALIGNED": "bad", "PARTLY": "bad", "SLOWLY": "bad",
}  # fmt: skip


class _Detail(NamedTuple):
    """How much stands on the screen."""

    rows: int  # of the bar
    parts: bool = False  # whether rows say what their kernels do
    items: int = 3
    both: bool = True  # whether it says what is left of the step when all is done
    reasons: int = 3  # of items, the first
    rest_pct: float = 100.0  # of the bar: it stands where a rest of several kinds takes no more than that


DETAILS: Final = (
    *(
        _Detail(rows, parts, both=both)
        for both in (True, False)
        for rows, parts in ((MOST_ROWS, True), (5, True), (MOST_ROWS, False))
    ),
    *(
        _Detail(rows, items=items, both=False, reasons=reasons, rest_pct=rest)
        for rows, items, reasons, rest in (
            *((5, 3, 3, 100.0), (4, 3, 3, 10.0), (5, 3, 2, 100.0)),
            *((5, 2, 2, 100.0), (4, 2, 2, 100.0), (3, 2, 2, 100.0), (3, 1, 1, 100.0)),
        )
    ),
    _Detail(3, items=1, both=False, reasons=0),  # beside the ranks of a job
)
"""From the most to the least: the first that fits is taken."""


def screen_of(profile: Profile, width: int | None = None) -> Screen:
    """Return the first screen of an analysed profile.

    Args:
        profile: with its first screen as data.
        width: columns of the terminal; None where nothing is to be shortened.
    """
    found = profile.screen
    if found is None:
        return Screen(())
    room = None if width is None else max(width, NARROWEST)
    for detail in DETAILS:
        lines = list(_lines(profile, found, room, detail))
        if len(lines) <= MOST_LINES and rest_pct(found.bar, detail.rows) <= detail.rest_pct:
            break
    return Screen(tuple(lines))


def data_of_screen(profile: Profile) -> dict[str, Any]:
    """Return the verdict and the bar for programs, times in ns."""
    found = profile.screen
    if found is None:
        return {"verdict": None, "bar": None}
    answer, bar = found.answer, found.bar
    texts = [verdict_of(found), *_further(found)]
    rows = [] if bar is None else [{**as_dict(row), "parts": dict(row.parts)} for row in bar.rows]
    judged = {
        "word": answer.word,
        "kind": answer.says.kind,
        "text": " ".join(texts),
        "limits": [verdict.limit(one) for one in found.limits],
        **dict(answer.says.fields),
    }
    return {"verdict": judged, "bar": bar and {**as_dict(bar), "rows": rows}}


def _lines(profile: Profile, found: FirstScreen, room: int | None, detail: _Detail) -> Iterator[TextLine]:
    parts = (
        list(_head(profile, found, room)),
        list(_verdict(profile, found, room)),
        list(_bar(found, detail)),
        list(rank_lines(profile, max(2, detail.rows - 2))),
        list(predicted_lines(found)),
        list(_items(found, detail, room)),
        list(_end(found, room)),
    )
    for number, lines in enumerate(filter(None, parts)):
        if number:
            yield line_of("")
        yield from lines


def _wrap(text: str, room: int | None, indent: str = "") -> list[str]:
    return f.wrapped(text, min(room or WIDTH, WIDTH), indent) or [""]


def _short(text: str, room: int | None, taken: int) -> str:
    """Return foreign text as people see it, cut in its middle only where a terminal has no room for it."""
    seen = shown(text)
    return seen if room is None else f.shorten(seen, max(8, room - taken))


def _clauses(text: str, room: int | None, taken: int) -> str:
    """Return the clauses of a reason that fit; of a first one that does not, its name in brackets is cut, or goes."""
    clauses = shown(text).split(", ")
    while len(clauses) > 1 and room is not None and columns(", ".join(clauses)) > room - taken:
        clauses.pop()
    said = ", ".join(clauses)
    before, bracket, name = said.partition(" (")
    if room is None or not bracket or columns(said) <= room - taken:
        return _short(said, room, taken)
    left = room - taken - columns(before) - 3
    return _short(before, room, taken) if left < LEAST_NAME else f"{before} ({f.shorten(name[:-1], left)})"


def head_of(profile: Profile, found: FirstScreen) -> list[tuple[str, str]]:
    """Return what it is: source and steps, GPU with precision."""
    pairs = [
        (about.name_of(profile), about.recorded(profile, found.bar)),
        (about.gpus(profile), about.abilities(profile)),
    ]
    return [pair for pair in pairs if any(pair)]


def _head(profile: Profile, found: FirstScreen, room: int | None) -> Iterator[TextLine]:
    """Yield what it is: source, steps, GPU, precision; in two columns where they fit."""
    pairs = [(shown(one), shown(other)) for one, other in head_of(profile, found)]
    least, right = (max((columns(pair[at]) for pair in pairs), default=0) for at in (0, 1))
    left = max(least + 2, min(LEFT, WIDTH - right))
    if all(left + columns(other) <= WIDTH for _, other in pairs) and (room is None or room >= WIDTH):
        for one, other in pairs:
            padding = " " * (left - columns(one)) if other else ""
            yield line_of(TextPart(one + padding, "strong"), TextPart(other, "dim"))
        return
    for one, other in pairs:
        both = f"{one}  {other}" if one and other else one or other
        if columns(both) <= (room or WIDTH):
            yield line_of(TextPart(f"{one}  " if one else "", "strong"), TextPart(other, "dim"))
            continue
        yield line_of(TextPart(_short(one, room, 0), "strong"))
        yield from (line_of(TextPart(text, "dim")) for text in _wrap(other, room) if text)


def further_of(profile: Profile, found: FirstScreen) -> list[str]:
    """Return what else is true of the run: also whether float16 needs a scaled loss, where that was asked for."""
    need = profile.loss_scale_need
    return [*_further(found), *([] if need is None else [about.loss_scale_sentence(need)])]


def verdict_of(found: FirstScreen) -> str:
    """Return the verdict as one sentence, whose share of the bar is the one that stands beside its row."""
    return verdict.verdict(found.answer.word, as_rows(found.answer.says, found.bar))


def _further(found: FirstScreen) -> list[str]:
    return [verdict.further(as_rows(said, found.bar)) for said in found.answer.more]


def _verdict(profile: Profile, found: FirstScreen, room: int | None) -> Iterator[TextLine]:
    answer = found.answer
    for text in verdict_of(found).split("\n"):
        for line in _wrap(shown(text), room):
            before, word, after = line.partition(answer.word)
            yield line_of(TextPart(before, "strong"), TextPart(word, WORD_STYLES.get(answer.word, "strong")), after)
    for text in further_of(profile, found):
        yield from map(line_of, _wrap(shown(text), room))


def _bar(found: FirstScreen, detail: _Detail) -> Iterator[TextLine]:
    """Yield the title with the total, and a row for each part: what, bar, time, share."""
    if (bar := found.bar) is None:
        return
    title, rows = title_of(bar), labelled(found, bar, detail.rows)
    yield _figures(TextPart(title, "strong"), f.duration(bar.total_ns))
    for (label, row), share in zip(rows, shares_of(bar, rows), strict=True):
        drawn = "#" * (max(1, round(BAR * row.pct / 100.0)) if row.pct >= 1.0 else 0)
        figures = f"{f.duration(row.ns):>{FIGURE}}{share:>{SHARE}}"
        yield line_of(
            f"  {label:<{LABEL - 2}}",
            TextPart(f"{drawn:<{TIME - LABEL - FIGURE}}", STYLES.get(row.kind, "dim")),
            figures,
        )
        if detail.parts and row.kind in ("used", "others") and row.pct >= DETAILED_PCT and (said := parts_text(row)):
            yield line_of(TextPart(f"    {said}", "dim"))


def predicted_lines(found: FirstScreen) -> Iterator[TextLine]:
    """Yield what a run without a GPU would take on one: a row for the step as it is and for each change."""
    if (prediction := found.prediction) is None:
        return
    batch = f"batch {prediction.batch:,}" if prediction.batch else "the batch of this run"
    title = TextPart(f"A step on {gpu_of(prediction.gpu)}, {batch}", "strong")
    yield _figures(title, "likely", TextPart("  (range)", "dim"))
    for step in prediction.steps:
        what = "as it is" if step.change is None else f"{step.change}{_also(step, found.items)}"
        least = "at least " if prediction.at_least else ""
        likely = f"{least}{f.likely(step.ns)}"
        label = f.shorten(f"  {what}{', TF32' if step.tf32 else ''}", TIME - FIGURE)
        yield _figures(TextPart(label), likely, f"  ({f.range_text(step.ns)})")


def _also(step: PredictedStep, items: Sequence[Item]) -> str:
    """Return which sizes a predicted step changes too: by the numbers of their items where each has one."""
    if not step.sizes:
        return ""
    at = {item.advice.where.layer: number for number, item in enumerate(items, 1) if item.advice.sizes}
    numbers = [str(at[layer]) for layer, *_ in step.sizes if layer in at]
    rest = [one for one in step.sizes if one[0] not in at]
    by_number = f"item{'s' * (len(numbers) > 1)} {listed(sorted(numbers))}"
    if not rest:
        return f" and {by_number}"
    layer, dimension, size, new = rest[0]
    resized = f"{dimension} {size} -> {new} of {layer.rpartition('/')[2]}" if len(rest) == 1 else f"{len(rest)} sizes"
    return f", {by_number}, {resized}" if numbers else f", {resized}"


def _figures(what: TextPart, time: str, *more: TextPart | str) -> TextLine:
    """Return a line with a time in its column."""
    return line_of(what, f"{time:>{TIME - columns(what.text)}}", *more)


def _items(found: FirstScreen, detail: _Detail, room: int | None) -> Iterator[TextLine]:
    """Yield what to do first: what, what it saves likely or at most, its share, the rule; below it why, and where."""
    items, title = found.items[: detail.items], TextPart("What to do first", "strong")
    if not items:
        if (nothing := nothing_to_do(found)) is not None:
            yield line_of(title, f"    {nothing}")
        return
    heads = [name for name in ("likely", "at most") if any(name in savings(item) for item in items)]
    if not heads:
        yield _figures(title, "saves: unknown")
    elif len(heads) == 1:
        yield _figures(title, f"saves {heads[0]}")
    else:
        yield _figures(title, "".join(f"{head:>{FIGURE}}" for head in heads))
    shares = shares_by_time(found, detail.rows)
    for number, item in enumerate(items, 1):
        yield from _item(number, item, share_of(item, found, shares), heads, number <= detail.reasons, room)
    if detail.both and len(items) == len(found.items) and (left := left_text(found)):
        yield line_of(TextPart(f"   {left}", "dim"))


def left_text(found: FirstScreen) -> str:
    """Return what is left of a step when all is done that saves; empty where that is not known."""
    if found.left_ns is None:
        return ""
    saving = [str(number) for number, item in enumerate(found.items, 1) if item.saves_ns is not None]
    whole = "Both" if len(saving) == 2 else f"All {len(saving)}"
    together = listed(saving) if len(saving) < len(found.items) else whole
    return f"{together}: a step of {f.duration(found.left_ns)} at best"


def nothing_to_do(found: FirstScreen) -> str | None:
    """Return what stands where nothing is to be done first; None where that is not known."""
    if found.answer.word == "NOTHING TO GAIN":
        return "nothing for Tensor Cores; what fusing it saves is unknown"
    if found.answer.says.kind == "no_gpu" and found.prediction is None:
        return "profile a run on a GPU"
    if found.answer.says.kind == "no_kernels":
        return "record kernels with times: see tcprobe doctor PROFILE"
    if found.prediction is not None:
        return "nothing as it is: no size likely costs 1 % of the step"
    timed = found.bar is not None and found.bar.of in ("step", "capture")
    return "nothing: no change is seen that saves 1 % or more" if found.answer.word == "GOOD" and timed else None


def shares_by_time(found: FirstScreen, most: int) -> dict[str, str]:
    """Return the shares of the rows by their times, as shown, so that an item says the same of the same time."""
    if found.bar is None:
        return {}
    rows = rows_of(found.bar, most)
    return {f.duration(row.ns): share for (_, row), share in zip(rows, shares_of(found.bar, rows), strict=True)}


def share_of(item: Item, found: FirstScreen, shares: Mapping[str, str]) -> str:
    """Return what an item saves of the bar, as the row says that it all is; else of the predicted step as it is."""
    steps = () if found.prediction is None else found.prediction.steps
    total_ns = found.bar.total_ns if found.bar is not None else steps[0].ns.mid if steps else None
    if item.saves_ns is None or not total_ns:
        return ""
    return shares.get(f.duration(item.saves_ns)) or f.whole_percent(100.0 * item.saves_ns / total_ns)


def savings(item: Item) -> dict[str, float]:
    """Return what an item saves, by the heading of its column."""
    if item.saves_ns is None:
        return {}
    if not item.likely:
        return {"at most": item.saves_ns}
    return {"likely": item.saves_ns, **({} if item.most_ns is None else {"at most": item.most_ns})}


def _item(
    number: int, item: Item, share: str, heads: Sequence[str], reasoned: bool, room: int | None
) -> Iterator[TextLine]:
    found = savings(item)
    saved = [f.duration(found[head]) if head in found else "" for head in heads]
    room_for = (TIME - FIGURE * len(heads) if found else TIME + SHARE) - 4  # columns of the title
    first = shown(headline(item.advice, room_for))
    first = first if room is None else f.shorten(first, room_for)
    if columns(first) > room_for:  # a long name in a pipe has a line of its own
        yield line_of(f"{number}  ", TextPart(first, "strong"))
        first = ""
    figures = "".join(f"{text:>{FIGURE}}" for text in saved) + f"{share:>{SHARE}}" if found else ""
    padded = first + " " * (room_for + 1 - columns(first))
    lead = f"{number}  " if first else "   "
    yield line_of(lead, TextPart(padded, "strong"), figures, TextPart(f"  {item.advice.code}", "dim"))
    also = also_of(item)
    whole = _short if item.advice.sizes else _clauses  # of a layer its line is wanted, at the end
    why = whole(reason_of(item.advice), room, 5 + (columns(also) + 2 if also else 0))
    if (text := "; ".join(filter(None, (why, also)))) and reasoned:
        yield line_of(TextPart(f"     {text}", "dim"))


def also_of(item: Item) -> str:
    """Return which item above draws on the same time; empty for none."""
    return f"part of item {item.beside[0]}: do not add the two" if item.beside and item.saves_ns is not None else ""


def sure_of(found: FirstScreen) -> str:
    """Return what limits the figures; empty where nothing does. That the GPU is unknown stands in the head."""
    return "; ".join(verdict.limit(one) for one in found.limits if one.kind != "gpu_unknown")


def _end(found: FirstScreen, room: int | None) -> Iterator[TextLine]:
    """Yield how sure it is, and where to look next."""
    if text := sure_of(found):
        first, *rest = _wrap(f"How sure  {shown(text)}.", room, " " * 10)
        yield line_of(TextPart(first[:10], "strong"), first[10:])
        yield from map(line_of, rest)
    code = next((item.advice.code for item in found.items), None)
    explained = f"tcprobe explain {code}; " if code else ""
    yield line_of(TextPart("Next      ", "strong"), f"{explained}report --all has every table, --by one of them")
