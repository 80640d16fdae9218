"""The rows of the bar as they are shown: what each is, its share, and which stand together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tcprobe import formatting as f
from tcprobe.report.run import verdict
from tcprobe.report.run.words import kind_label
from tcprobe.schema.screen import KERNELS, ON, WAITS, AnswerKind, Bar, BarOf, BarRow, FirstScreen, RowKind
from tcprobe.schema.statement import Statement

LABEL: Final = 26  # columns of what a row is
MOST_ROWS: Final = 7  # of the bar
SMALLEST_PCT: Final = 0.95  # of the bar: smaller rows stand together
PRODUCTS: Final[tuple[RowKind, ...]] = ("used", "misaligned", "slowly", "off")
PRODUCTS_PCT: Final = 5.0  # of the bar: from here on the largest row of products stands, which the verdict is about
MOST_OF_REST: Final = 0.9  # of small rows together: one from here on gives them its name
REST: Final = "the rest"
PART_PCT: Final = 5.0  # of a row: smaller parts are not named
TITLES: Final[dict[BarOf, str]] = {
    "step": "Where the step goes",
    "capture": "Where the time goes",
    "kernel_time": "Where the kernel time goes",
    "op_calls": "Where the calls of ops go",
}
OF_ROWS: Final[Mapping[AnswerKind, tuple[RowKind, ...]]] = {
    "waiting": WAITS, "busy": KERNELS, "misaligned": ("misaligned",), "all_used": ON,
}  # fmt: skip
"""The rows of the bar that the share in a sentence is of."""


def title_of(bar: Bar) -> str:
    """Return what stands over the bar."""
    return f"{TITLES[bar.of]}{f' (mean of {bar.gpus} GPUs)' if bar.gpus > 1 else ''}"


def labelled(found: FirstScreen, bar: Bar, most: int) -> list[tuple[str, BarRow]]:
    """Return the rows with what they are.

    On a GPU that is not known nobody can say what could use Tensor Cores, and one that has none asks of no kernel.
    """
    words = dict(verdict.ROW_WORDS)
    if any(one.kind == "gpu_unknown" for one in found.limits):
        words["off"] = "off Tensor Cores"
    if found.answer.word == "NOT APPLICABLE":
        words["unknown"] = "unknown kernels"
    return rows_of(bar, most, words)


def shares_of(bar: Bar, rows: Sequence[tuple[str, BarRow]]) -> list[str]:
    """Return the shares of rows of a bar: of a row the same however many there are, of the rest what they leave."""
    whole = whole_of(bar)
    left = sum(whole.values()) - sum(whole.get(row, 0) for _, row in rows)
    return [f.whole_text(row.pct, whole.get(row, left)) for _, row in rows]


def as_rows(said: Statement[AnswerKind], bar: Bar | None) -> Statement[AnswerKind]:
    """Return a statement on one row of the bar with the share that stands beside it, as rows are rounded together."""
    kinds, pct = OF_ROWS.get(said.kind, ()), said.get("pct")
    if bar is None or not kinds or not isinstance(pct, float):
        return said
    if pct == bar.pct("copy"):  # which all of the waiting is for
        kinds = ("copy",)
    rows = [row for row in bar.rows if row.kind in kinds and row.pct >= SMALLEST_PCT]
    number = whole_of(bar).get(rows[0], 0) if len(rows) == 1 else 0
    return said.changed("pct", float(number)) if 0 < number < 100 else said


def whole_of(bar: Bar) -> dict[BarRow, int]:
    """Return the shares of the rows as whole numbers that add up to 100."""
    rows = [row for _, row in rows_of(bar, MOST_ROWS)]
    return dict(zip(rows, f.whole_numbers([row.pct for row in rows]), strict=True))


def rows_of(bar: Bar, most: int, words: Mapping[RowKind, str] = verdict.ROW_WORDS) -> list[tuple[str, BarRow]]:
    """Return the rows with what they are; those below a percent, and the smallest of too many, stand together."""
    ranked = sorted(bar.rows, key=lambda row: -row.ns)
    large = [row for row in ranked if row.pct >= SMALLEST_PCT]
    if len(large) + (len(large) < len(ranked)) > most:
        products = [row for row in large if row.kind in PRODUCTS and row.pct >= PRODUCTS_PCT][:1]
        large = large[: most - 1] if not products or products[0] in large[: most - 1] else large[: most - 2] + products
    if len(ranked) - len(large) == 1:
        large = ranked
    kept = [(words[row.kind], row) for row in bar.rows if row in large]
    if small := [row for row in ranked if row not in large]:
        ns = sum(row.ns for row in small)
        name = words[small[0].kind]
        named = small[0].ns >= MOST_OF_REST * ns and len(name) < LABEL - 8
        rest = BarRow(small[0].kind if named else "others", ns, sum(row.pct for row in small))
        kept.append((f"{name}, rest" if named else REST, rest))
    return kept


def parts_text(row: BarRow) -> str:
    """Return what the kernels of a row do, the largest first; empty where that says nothing."""
    named = [(kind, ns) for kind, ns in row.parts if 100.0 * ns >= PART_PCT * row.ns][:3]
    if len(row.parts) < 2 and row.kind == "used":
        return ""
    return ", ".join(f"{kind_label(kind)} {f.duration(ns)}" for kind, ns in named)


def rest_pct(bar: Bar | None, most: int) -> float:
    return 0.0 if bar is None else sum(row.pct for label, row in rows_of(bar, most) if label == REST)
