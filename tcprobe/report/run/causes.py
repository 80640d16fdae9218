"""Where a step goes: its parts, the causes of time in each, what is costliest of them, and the words for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from msgspec import Struct

from tcprobe import formatting as f
from tcprobe.cost.alignment import RATE_FAMILIES, published_pct
from tcprobe.report.document import Cell, Section
from tcprobe.report.fields import Field, cell_of, field_of, number_of, section, share_of, source_of, time_of
from tcprobe.report.run import words
from tcprobe.report.run.words import kind_label
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.kinds import CAUSE_GROUPS, CauseGroup, CauseKind
from tcprobe.schema.profile import Profile

WIDTH: Final = 60  # characters of the bar
GROUP_WORDS: Final[Mapping[CauseGroup, str]] = {
    "well": "Tensor Cores, used well",
    "slowly": "Tensor Cores, used slowly",
    "used": "Tensor Cores, how well is unknown",
    "off": "capable ops, off Tensor Cores",
    "layout": "changes of layout or type",
    "never": "ops without a Tensor Core kernel",
    "unknown": "not known",
    "copy": "copies and sets alone",
    "idle": "nothing runs",
}
GROUPS_WITHOUT_OPS: Final[Mapping[CauseGroup, str]] = {
    **GROUP_WORDS,
    "off": "products off Tensor Cores",
    "never": "kernels of no matrix product",
}
"""Where the source names no ops."""
MARKS: Final[Mapping[CauseGroup, str]] = {
    "well": "#", "slowly": "+", "used": "=", "off": "!", "layout": "~", "never": "-", "unknown": "?", "copy": "c",
    "idle": ".",
}  # fmt: skip
"""One character of the bar for each part."""
CAUSE_WORDS: Final[Mapping[CauseKind, str]] = {
    "none": "efficiency unknown: no shapes, dtype or GPU name",
    "not_nvidia": "not an NVIDIA GPU",
    "gpu": "the GPU has none",
    "gpu_unknown": "the GPU is not known",
    "type": "their types have none",
    "type_unknown": "the op may hold ops of any kind",
    "dtype": "a dtype that the GPU's Tensor Cores do not take",
    "dtype_missing": "the dtype is not recorded",
    "dtype_unknown": "whether Tensor Cores take the dtype is not known",
    "tf32": "float32 without TF32",
    "tf32_unknown": "float32: TF32 off, or the library's choice",
    "shape": "misaligned, and the library chose another kernel",
    "shape_required": "misaligned, and the dtype has no such kernel",
    "library": "the library chose another kernel",
    "kernels_unknown": "whether the kernels use them is not known",
    "tc_well": "half of the GPU's peak or more",
    "tc_misaligned": "misaligned: no multiple of 16 bytes",
    "tc_tiles": "tiles, or the last wave of them, partly empty",
    "tc_small": "too small to fill the GPU",
    "tc_memory": "bound by memory",
    "tc_slow": "slower than its sizes explain",
    "channels": "too few channels, or too many groups",
    "layout": "within ops that could use Tensor Cores",
    "op_unknown": "kernels of no op that is named",
    "other_step": "kernels of steps that do not count",
    "copy": "",
    "idle": "",
}
"""Each cause beside the part of the bar that it is in."""
_WITHOUT_OP: Final[Mapping[CauseKind, str]] = {
    "library": "library's choice, channels or shape: undecided",
    "tc_well": "half of the pipe's peak or more, by counters",
    "tc_slow": "less than half of the pipe's peak, by counters",
    "tc_misaligned": "misaligned: a size, a view or a leading dimension",
}
"""Likewise, of kernels of no op, whose shapes nobody knows."""
_BY_KIND: Final[frozenset[CauseKind]] = frozenset({"type", "op_unknown", "none"})
"""Causes that say little: what their kernels do says more."""
_MOST_KINDS: Final = 6
_OTHER: Final = "other kinds"
_OF_CHANNELS: Final = {
    "filters": ("1 output channel", "{} output channels"),
    "channels": ("1 input channel", "{} input channels"),
    "groups": ("1 group", "{} groups"),
}


def _channels(row: Row) -> str:
    one, many = _OF_CHANNELS.get(str(row["cause_dimension"]), ("1 channel", "{} channels"))
    size = row["cause_size"]
    what = "few channels" if size is None else one if size == 1 else many.format(f.count(size))
    return f"{what}: {row['cause_kernel'] or 'its kernel'} runs on CUDA cores"


def _misaligned(row: Row) -> str:
    size = row["cause_size"]
    if size is None:
        return CAUSE_WORDS["tc_misaligned"]
    return f"slowed: {row['cause_dimension']} {f.count(size)} is no multiple of 16 bytes"


def _tiles(row: Row) -> str:
    waves = row["waves"]
    if row["tile"] is None or waves is None:
        return CAUSE_WORDS["tc_tiles"]
    return f"slowed: tiles of {row['tile']}, {f.full_number(float(waves), 2)} waves, partly empty"


_OF_OP: Final[Mapping[str, Callable[[Row], str]]] = {
    "channels": _channels,
    "tc_misaligned": _misaligned,
    "tc_tiles": _tiles,
    "tc_small": lambda _: "slowed: too small to fill the GPU",
    "tc_memory": lambda _: "slowed: bound by memory",
    "tc_slow": lambda _: "slow, and its sizes do not explain it",
    "tc_well": lambda _: "used well",
    "none": lambda _: "used; how well is unknown",
    "layout": lambda _: "changes of layout or type",
    "type": lambda _: "no Tensor Core kernel",
    "shape": lambda row: f"misaligned, and the library ran {row['cause_kernel'] or 'another kernel'}",
    "library": lambda row: f"the library ran {row['cause_kernel'] or 'another kernel'}",
}


def cause_of_op(row: Row) -> str:
    """Return the cause of an op's time, from its row of `ops`."""
    cause = str(row["cause"])
    return _OF_OP[cause](row) if cause in _OF_OP else cause_label(row["cause"])


def cause_label(cause: Value) -> str:
    """Return a cause in a few words, where nothing else of its op is known."""
    return f.NA if cause is None else CAUSE_WORDS.get(cast(CauseKind, cause)) or f.NA


def _why(row: Row) -> str:
    """Return a cause in a few words, or the kind of its kernels where that says more."""
    if (kind := row.get("kind")) not in (None, "unknown"):
        return _OTHER if kind == _OTHER else kind_label(kind)
    without = _WITHOUT_OP.get(cast(CauseKind, row["cause"])) if row["op"] is None else None
    return f"{without or cause_label(row['cause'])}{row.get('slowed') or ''}"


def _slowed(profile: Profile, row: Row) -> Row:
    """Add how fast a misaligned product of no op is beside an aligned one, by published timings of large products."""
    if row["cause"] != "tc_misaligned" or row["op"] is not None:
        return row
    kernels = profile.require("kernels")
    one = next(kernels.take(kernels.names("kernel").among(str(row["kernel"]))).rows(), None)
    family = None if one is None else RATE_FAMILIES.get(str(one["precision"]))
    if one is None or family is None or one["alignment"] is None:
        return row
    capability = None
    for device in profile.require("devices").rows():
        if device["device"] == row["device"] and device["compute_capability"] is not None:
            major, _, minor = str(device["compute_capability"]).partition(".")
            capability = int(major), int(minor or 0)
    timed, share = published_pct(int(one["alignment"]), family, capability)
    return {**row, "slowed": f"; large products reach {share} % of an aligned one's rate ({timed.name})"}


class Part(Struct, frozen=True):
    """One cause, or one kind of kernels with it, the mean over the GPUs that ran kernels."""

    # group, cause: what it is.
    group: CauseGroup
    cause: CauseKind
    share_pct: float  # of the window, else of all kernel time
    # low_pct, high_pct: least and most over the GPUs.
    low_pct: float
    high_pct: float
    step_ns: float | None  # of a step; None where none is known
    launches: float | None  # kernels, over all GPUs; None where unknown, or it has none
    row: Row  # of the GPU on which it takes most


def cause_table(profile: Profile) -> Section | None:
    """Return the table of where the time goes; None where no kernel has a cause."""
    rows = list(profile.require("causes").rows())
    if not rows:
        return None
    gpus = len({row["device"] for row in rows})
    told = _by_kind(rows, list(profile.require("kinds").rows()))
    made = parts([_slowed(profile, row) for row in told], gpus)
    split = any(row["split_ns"] is not None for row in rows)
    several = ("Where kernels overlap, the time is shared equally.",) if split else ()
    title = _title(profile, rows, split, f"mean of {gpus} GPUs" if gpus > 1 else "")
    groups = GROUP_WORDS if len(profile.require("ops")) else GROUPS_WITHOUT_OPS
    return section(
        title, _fields(made, gpus, _each(profile), groups), made, (f"[{bar(made)}]", *several), drop_idle=True
    )


def _by_kind(causes: Sequence[Row], kinds: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows of `causes`; of causes that say little those of `kinds` instead, the least of them together."""
    told = {str(row["cause"]) for row in kinds} & _BY_KIND
    yield from (row for row in causes if row["cause"] not in told)
    for cause in sorted(told):
        rows = [row for row in kinds if row["cause"] == cause]
        spent = dict.fromkeys((row["kind"] for row in rows), 0.0)
        for row in rows:
            spent[row["kind"]] += float(row["share_pct"] or 0)
        ranked = sorted(spent, key=lambda kind: (-spent[kind], str(kind)))
        least = frozenset(ranked[_MOST_KINDS:] if len(ranked) > _MOST_KINDS + 1 else ())
        yield from (row for row in rows if row["kind"] not in least)
        for device in sorted({row["device"] for row in rows}, key=str):
            if together := [row for row in rows if row["device"] == device and row["kind"] in least]:
                yield _together(together)


def _together(rows: Sequence[Row]) -> Row:
    """Return several rows of one GPU and cause as one, beside the costliest of its ops."""
    summed: Row = {
        name: None if None in values else sum(float(value or 0) for value in values)
        for name in ("share_pct", "split_ns", "sum_ns", "step_ns", "launches")
        for values in [[row[name] for row in rows]]
    }
    return {**max(rows, key=lambda row: float(row["sum_ns"] or 0)), **summed, "kind": _OTHER}


def parts(rows: Iterable[Row], gpus: int) -> list[Part]:
    """Return each cause of the rows of `causes` or `kinds`, in the order of the bar, the mean over GPUs."""
    members: dict[tuple[CauseGroup, CauseKind, Value], list[Row]] = {}
    for row in rows:
        key = cast(CauseGroup, row["group"]), cast(CauseKind, row["cause"]), row.get("kind")
        members.setdefault(key, []).append(row)
    made = [_part(group, cause, of_gpus, gpus) for (group, cause, _), of_gpus in members.items()]
    order = list(CAUSE_GROUPS)

    def place(part: Part) -> tuple[int, bool, float, str, str]:
        kind = part.row.get("kind")
        return order.index(part.group), kind == _OTHER, -part.share_pct, part.cause, str(kind)

    return sorted(made, key=place)


def _part(group: CauseGroup, cause: CauseKind, rows: Sequence[Row], gpus: int) -> Part:
    shares = [float(row["share_pct"] or 0) for row in rows] + [0.0] * (gpus - len(rows))
    steps = [row["step_ns"] for row in rows]
    launches = [row["launches"] for row in rows if row["launches"] is not None]
    return Part(
        group, cause, sum(shares) / gpus, min(shares), max(shares),
        None if None in steps else sum(float(ns or 0) for ns in steps) / gpus,
        sum(float(count or 0) for count in launches) if launches else None,
        max(rows, key=lambda row: float(row["sum_ns"] or row["split_ns"] or 0)),
    )  # fmt: skip


def _title(profile: Profile, rows: Sequence[Row], split: bool, several: str) -> str:
    if not split:
        return f"Where the kernel time goes{several and f' ({several})'}"
    length = sum(float(r["split_ns"] or 0) for r in rows if r["device"] == rows[0]["device"])  # as of each GPU
    steps = profile.counted_steps
    more = several and f"; {several}"
    if steps is None:
        return f"Where the time goes (of the {f.duration(length)} captured{more})"
    return f"Where a step goes (of {f.duration(length / steps)} a step in the window{more})"


def _each(profile: Profile) -> str:
    """Return the heading of the time of a cause."""
    waiting = profile.waiting
    of_steps = profile.counted_steps is not None or (waiting is not None and waiting.length == "reported")
    return "a step" if of_steps else "time"


def _fields(made: Sequence[Part], gpus: int, each: str, groups: Mapping[CauseGroup, str]) -> tuple[Field, ...]:
    first = {part.group: part for part in reversed(made)}  # what is of all a group's causes stands beside the first
    total = {group: sum(p.share_pct for p in made if p.group == group) for group in first}

    def of_group(part: Part, text: str) -> str:
        return text if part is first[part.group] else ""

    return (
        cell_of("part", lambda p: of_group(p, f"{MARKS[p.group]} {groups[p.group]}"), least=27, wraps=True),
        cell_of("in all", lambda p: Cell(of_group(p, f.percent(total[p.group])), total[p.group], "pct"), right=True),
        cell_of("why", lambda p: Cell(_why(p.row), p.cause), least=26, wraps=True),
        share_of("share", lambda p: p.share_pct),
        cell_of("over GPUs", lambda p: f.percents(p.low_pct, p.high_pct) if gpus > 1 else f.NA, 3, right=True),
        time_of(each, lambda p: p.step_ns),
        number_of("kernels", lambda p: p.launches, 5),
        cell_of("costliest", lambda p: f.NA if p.row["op"] is None else words.where_of(p.row), 1, least=28),
        field_of("its kernel", lambda p: p.row["kernel"], 4, least=28),
        source_of(2, lambda p: p.row["source"]),
    )


def bar(made: Sequence[Part]) -> str:
    """Return the parts as one line of `WIDTH` characters, each by its mark; rounded in sum, not apart."""
    total = sum(part.share_pct for part in made)
    if total <= 0:
        return ""
    line, passed, drawn = "", 0.0, 0
    for part in made:
        passed += part.share_pct
        end = round(WIDTH * passed / total)
        line += MARKS[part.group] * (end - drawn)
        drawn = end
    return line
