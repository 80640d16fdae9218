"""The first screen of a comparison: which runs, did it help, the verdicts, a few figures, what else differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tcprobe import formatting as f
from tcprobe.report.compare.sections import LABELS
from tcprobe.report.compare.words import answer, signed, signed_percent
from tcprobe.report.document import Screen, TextLine, TextPart, line_of
from tcprobe.report.run import about
from tcprobe.report.run.figures import label, value_text
from tcprobe.report.run.screen import WIDTH, WORD_STYLES
from tcprobe.report.sentences import gpu_of
from tcprobe.schema.columns import Row
from tcprobe.schema.comparison import ComparedFigure, Comparison
from tcprobe.schema.screen import VerdictWord
from tcprobe.visible import columns, shown

MOST_LINES: Final = 22
MOST_FIGURES: Final = 8
MOST_SETTINGS: Final = 3
LEFT: Final = 30  # columns of what a row is
SIDE: Final = 14  # columns of a figure of a run
BESIDE: Final = 34  # columns of a run's name where there is room
LEAST_NAME: Final = 12
UNLIMITED: Final = 1 << 30
SHOWN: Final = (
    *("step_time_ns", "throughput", "wall_ns", "gpu_busy_pct", "tc_kernel_time_pct", "tc_capable_time_pct"),
    *("kernel_time_ns", "mfu_pct", "flops_per_step", "idle_pct", "peak_memory_bytes"),
)
"""Figures that may stand on the screen, in this order."""


def verdicts(comparison: Comparison) -> list[VerdictWord | None]:
    """Return the word of each run; None of one without any."""
    return [None if profile.screen is None else profile.screen.answer.word for profile in comparison.profiles]


def screen_of(comparison: Comparison, labels: Sequence[str], width: int | None = None) -> Screen:
    """Return the first screen of a comparison: at most 22 lines, but for many runs.

    Args:
        comparison: of two runs or more.
        labels: what they are called.
        width: columns of the terminal; None where nothing is to be shortened.
    """
    room = min(width or WIDTH, WIDTH)
    more = [line_of(TextPart("Next      ", "strong"), "--all has every table, --by one")]
    parts = [
        list(_runs(comparison, labels, width)),
        [*_answer(comparison, labels, room), *verdict_lines(comparison)],
        list(_figures(comparison, labels, room)),
        list(predicted_lines(comparison, room)),
        [*setting_lines(comparison, width), *more],
    ]
    over = sum(map(len, parts)) + sum(map(bool, parts)) - 1 - MOST_LINES
    if over > 0:
        parts[2] = parts[2][: max(2, len(parts[2]) - over)]
    lines = list[TextLine]()
    for part in filter(None, parts):
        lines += [line_of(""), *part] if lines else part
    return Screen(tuple(lines))


def _runs(comparison: Comparison, labels: Sequence[str], width: int | None) -> Iterator[TextLine]:
    """Yield a line for each run: its name, then what recorded it, all beginning in one column."""
    profiles, room = comparison.profiles, width or UNLIMITED
    bars = [None if one.screen is None else one.screen.bar for one in profiles]
    told = [about.recorded(*pair, lengths=False) for pair in zip(profiles, bars, strict=True)]  # the table has them
    said = [f.shorten(shown(text), max(LEFT, room - LEAST_NAME - 5)) for text in told]
    most = max(map(columns, said))
    paths = [f.shorten(shown(name), max(LEAST_NAME, room - most - 5)) for name in comparison.names]
    beside = max(max(map(columns, paths)) + 2, min(BESIDE, room - most - 3)) if most else 0
    for name, path, text in zip(labels, paths, said, strict=True):
        padding = " " * (beside - columns(path)) if text else ""
        yield line_of(TextPart(f"{name}  {path}", "strong"), padding, TextPart(text, "dim"))


def _answer(comparison: Comparison, labels: Sequence[str], room: int) -> Iterator[TextLine]:
    for number, sentence in enumerate(answer(comparison, labels)):
        for line in f.wrapped(shown(sentence), room):
            yield line_of(TextPart(line, "plain" if number else "strong"))


def verdict_lines(comparison: Comparison) -> Iterator[TextLine]:
    """Yield the verdicts of the runs, in their order."""
    words = verdicts(comparison)
    if None in words:
        return
    parts: list[TextPart | str] = ["Tensor Cores: "]
    for number, word in enumerate(words if len(set(words)) > 1 else words[:1]):
        parts += [" -> "] if number else []
        parts.append(TextPart(str(word), WORD_STYLES.get(word, "strong") if word else "plain"))
    yield line_of(*parts, "." if len(set(words)) > 1 else " in each.")


def _figures(comparison: Comparison, labels: Sequence[str], room: int) -> Iterator[TextLine]:
    """Yield a row for each of the first figures that a run has: that of each run, of two the change."""
    named = {one.metric: one for one in comparison.figures}
    if "step_time_ns" in named and all(side.is_known for side in named["step_time_ns"].sides):
        other_work = (
            any(change.pct for change in named["flops_per_step"].changes) if "flops_per_step" in named else True
        )
        for again in ("wall_ns", *(() if other_work else ("throughput",))):  # a second figure of speed beside it
            named.pop(again, None)
    rows = [named[metric] for metric in SHOWN if metric in named and any(side.is_known for side in named[metric].sides)]
    fit = max(1, (room - LEFT - SIDE) // SIDE) if len(labels) == 2 else max(1, (room - LEFT) // SIDE)
    if not rows:
        return
    heads = [*labels[:fit], *(["change"] if len(labels) == 2 else [])]
    yield line_of(TextPart(" " * LEFT + "".join(f"{head:>{SIDE}}" for head in heads), "dim"))
    for one in rows[:MOST_FIGURES]:
        sides = [_text(one, number) for number in range(len(labels))][:fit]
        change = [_change(one)] if len(labels) == 2 else []
        yield line_of(
            f"{LABELS.get(one.metric) or label(one.metric):<{LEFT}}"
            + "".join(f"{cell:>{SIDE}}" for cell in (*sides, *change))
        )


def _text(figure: ComparedFigure, run: int) -> str:
    side = figure.sides[run]
    if side.value is not None:
        return f.metric_text(figure.metric, side.value)
    told: Row = {"value": None, "low": side.low, "high": side.high, "text": None}
    return value_text(figure.metric, told) if side.is_known else "unknown"


def _change(figure: ComparedFigure) -> str:
    change = figure.changes[0]
    if change.difference in ("cannot tell", "not known"):
        return "unknown" if change.difference == "not known" else "cannot tell"
    if change.delta is None:  # of ranges that do not overlap
        return change.difference
    if change.difference in ("same", "within noise"):
        return "same" if change.difference == "same" else "noise"
    if change.pct is None or figure.metric.endswith("_pct"):
        return signed(figure.metric, change.delta)
    return signed_percent(change.pct)


def predicted_lines(comparison: Comparison, room: int) -> Iterator[TextLine]:
    """Yield what runs without a GPU would take on one, where that is predicted of each."""
    found = [one for profile in comparison.profiles if (one := profile.predicted) is not None]
    batches = {(one.gpu, one.batch) for one in found}
    if len(found) < len(comparison.profiles) or len(batches) > 1:
        return
    steps = [one.steps[0].ns for one in found]
    batch = "" if found[0].batch is None else f", batch {found[0].batch:,}"
    said = ", ".join(f"{f.likely(ns)} ({f.range_text(ns)})" for ns in steps)
    overlap = max(ns.low for ns in steps) <= min(ns.high for ns in steps)
    sure = ": cannot tell which is faster, measure on a GPU" if overlap and len(set(steps)) > 1 else ""
    for text in f.wrapped(f"Predicted on {gpu_of(found[0].gpu)}{batch}, a step: {said}{sure}.", room):
        yield line_of(text)


def setting_lines(comparison: Comparison, width: int | None) -> Iterator[TextLine]:
    """Yield the settings that differ, the first few."""
    for number, (what, values) in enumerate(comparison.settings[:MOST_SETTINGS]):
        told = " -> ".join("-" if value is None else shown(str(value)) for value in values)
        text = f"{what}: {told}"
        lead = "Differs   " if not number else " " * 10
        yield line_of(TextPart(lead, "strong"), text if width is None else f.shorten(text, max(20, width - 10)))
