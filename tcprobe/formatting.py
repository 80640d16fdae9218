"""Format values for people: with scaled units, no digits cut off, `-` for what was not measured.

Every function accepts None for NA. Values are scaled only here: tables hold ns, bytes and percent.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tcprobe.jsonfile import LARGEST, parse
from tcprobe.schema.finding import Range
from tcprobe.visible import columns

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value

NA = "-"
FILLER: Final = "\0"
TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
# Size of a unit in ns, the shortest time printed in it, and its name: 0.4 ms reads better than 400 us.
RANGE_UNITS: Final = ((1e9, 1e9, "s"), (1e6, 1e5, "ms"), (1e3, 1e3, "us"), (1.0, 0.0, "ns"))
WIDE: Final = 2.5  # times the low end: from here on a range says little without its likely value
EXACT: Final = 10**16  # from here on a float64 does not hold each whole number, and 1e308 would print 309 digits
DECIMAL = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def full_number(value: float, significant: int = 6) -> str:
    """Return `value` with all digits before the point and at least `significant` in total, without trailing zeros.

    One from `EXACT` on has an exponent.
    """
    if abs(value) >= EXACT:
        return repr(float(value))
    if abs(value) >= 10 ** (significant - 1):
        return f"{value:.0f}"
    return f"{value:.{significant}g}"


def since_step(value: str, step: Value) -> str:
    """Return a value that is NaN or infinite with the step since which it is; that of before the first is NA."""
    return value if step is None else f"{value} since step {step:,}"


def _scaled(value: float, scales: tuple[tuple[int, str], ...], base: str) -> str:
    """Return `value` in the largest unit of which it is at least one, with three significant digits."""
    for size, unit in scales:
        # What would print as 1000 of a unit is printed as 1 of the next.
        if abs(value) >= size * 0.9995:
            scaled = value / size
            places = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
            return f"{scaled:.{places}f} {unit}" if abs(scaled) < EXACT else f"{scaled:.3g} {unit}"
    return f"{full_number(value, 3)} {base}".rstrip()


def duration(ns: Value) -> str:
    """Return nanoseconds as ns, us, ms or s."""
    return NA if ns is None else _scaled(float(ns), TIMES, "ns")


def moment(ns: Value) -> str:
    """Return a moment of a capture in seconds with all digits to a microsecond, so that two of them differ."""
    return NA if ns is None else f"{float(ns) / 1e9:.6f} s"


def percent(value: Value, sign: bool = True) -> str:
    """Return 0-100 with one decimal; only exactly 0 and 100 print as 0 and 100."""
    if value is None:
        return NA
    share = float(value)
    text = "<0.1" if 0 < share < 0.05 else ">99.9" if 99.95 <= share < 100 else f"{share:.1f}"
    return f"{text} %" if sign else text


def whole_percent(value: float) -> str:
    """Return 0-100 as a whole number; what is not 0 or 100 does not print as that."""
    return "<1 %" if 0 < value < 0.5 else ">99 %" if 99.5 <= value < 100 else f"{value:.0f} %"


def whole_numbers(values: Sequence[float]) -> list[int]:
    """Return shares as whole numbers that add up to what the shares do: largest remainders go up."""
    found = [math.floor(value) for value in values]
    short = round(sum(values)) - sum(found)
    for at in sorted(range(len(values)), key=lambda at: found[at] - values[at])[:short]:
        found[at] += 1
    return found


def whole_text(share: float, number: int) -> str:
    """Return a share, 0-100, as the whole number that it is rounded to."""
    return "<1 %" if share > 0 and number == 0 else ">99 %" if share < 100 and number == 100 else f"{number} %"


def percents(low: Value, high: Value) -> str:
    """Return a range of 0-100, or one figure if both ends print alike."""
    if low is None or high is None or percent(low) == percent(high):
        return percent(high if low is None else low)
    start, end = percent(low, sign=False), percent(high)
    return f"{start} to {end}" if {start[0], end[0]} & {"<", ">"} else f"{start}-{end}"


def count(value: Value) -> str:
    """Return a whole number with thousands separated by commas; one beyond 64 bits has an exponent."""
    if value is None:
        return NA
    return f"{int(value):,}" if abs(float(value)) < LARGEST else f"{float(value):.6g}"


def many(number: int, noun: str, plural: str | None = None) -> str:
    """Return so many of something: ``1 file``, ``2 files``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def size(value: Value) -> str:
    """Return bytes in binary units."""
    return NA if value is None else _scaled(float(value), BINARY, "B")


def rate(value: Value) -> str:
    """Return bytes a second with a decimal prefix, as links and memories are sold (3.5 GB/s)."""
    if value is None:
        return NA
    scaled = _scaled(float(value), DECIMAL, "")
    return f"{scaled}B/s" if scaled[-1].isalpha() else f"{scaled} B/s"


def flops(value: Value) -> str:
    """Return a count of floating-point operations with a decimal prefix (12.3 GFLOP)."""
    if value is None:
        return NA
    scaled = _scaled(float(value), DECIMAL, "")
    return f"{scaled}FLOP" if scaled[-1].isalpha() else f"{scaled} FLOP"


def at_least(text: str, bounded: bool) -> str:
    """Return a figure as text, with what says that it is a lower bound where it is."""
    return f"at least {text}" if bounded and text != NA else text


def at_most(text: str, bounded: bool) -> str:
    """Return a figure as text, with what says that it is an upper bound where it is."""
    return f"at most {text}" if bounded and text != NA else text


def any_text(value: Value) -> str:
    """Return any value as text."""
    if value is None or value == "":
        return NA
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else full_number(float(value), 10)


FORMATTERS: dict[str, Callable[[Value], str]] = {
    "pct": percent,
    "ns": duration,
    "bytes": size,
    "rate": rate,
    "flops": flops,
}


def metric_text(metric: str, value: Value) -> str:
    """Format a figure in the unit given by its name's suffix (``_pct``, ``_ns``, ``_bytes``)."""
    unit = metric.rpartition("_")[2]
    if value is None:
        return NA
    if unit in FORMATTERS:
        return FORMATTERS[unit](value)
    if metric.startswith("flops_per"):
        return flops(value)
    return count(value) if float(value).is_integer() else full_number(float(value), 4)


def relative(path: str, base: str) -> str:
    """Return a path relative to the folder `base` if it is inside it, with forward slashes."""
    inside = base and path.startswith(base.rstrip("/") + "/")
    return relpath(path, base).replace("\\", "/") if inside else path


def source_line(place: str) -> str:
    """Return a line of the user's code, ``file:line``, relative to the working directory if it is inside it."""
    return relative(place, _here())


@cache
def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it is gone
        return ""


def shorten(text: str, width: int) -> str:
    """Shorten `text` in its middle to `width` columns; the ends of kernel and op names tell most."""
    if columns(text) <= width:
        return text
    if width < 4:
        return beginning(text, width)
    tail = (width - 2) // 2
    return f"{beginning(text, width - 2 - tail)}..{ending(text, tail)}"


def beginning(text: str, width: int) -> str:
    """Return as much of the beginning of `text` as fits in `width` columns, marks with their characters."""
    return text[:width] if text.isascii() else text[: sum(taken <= width for taken in accumulate(map(columns, text)))]


def ending(text: str, width: int) -> str:
    """Return as much of the end of `text` as fits in `width` columns, without marks of what is left out."""
    if text.isascii():
        return text[len(text) - width :]
    fitting = sum(taken <= width for taken in accumulate(map(columns, reversed(text))))
    tail = text[len(text) - fitting :]
    return tail[next((i for i, character in enumerate(tail) if columns(character)), len(tail)) :]


def wrapped(text: str, width: int, indent: str = "", long_words: bool = False) -> list[str]:
    """Return `text` in lines of at most `width` columns; a longer word has its own unless `long_words` are broken."""
    # textwrap counts characters: behind each wide one stands a second, which visible text never holds.
    padded = text if text.isascii() else "".join(c + FILLER if columns(c) > 1 else c for c in text)
    lines = textwrap.wrap(
        padded, width, subsequent_indent=indent, break_long_words=long_words, break_on_hyphens=long_words
    )
    return [line.replace(FILLER, "") for line in lines]


def shapes(text: Value) -> str:
    """Return JSON shapes (``[[4096, 100], [100, 3136]] -> [4096, 3136]``) as ``4096x100, 100x3136 -> 4096x3136``."""
    if text is None:
        return NA
    return " -> ".join(_shape_list(part.strip()) for part in str(text).split("->"))


def _shape_list(part: str) -> str:
    try:
        parsed = parse(part)
    except ValueError:
        return part
    if not isinstance(parsed, list):
        return NA if parsed is None else part
    nested = [s for s in parsed if isinstance(s, list)]
    return ", ".join(_shape(s) for s in nested) if nested else _shape(parsed)


def _shape(dimensions: list[object]) -> str:
    return "x".join("?" if d is None else str(d) for d in dimensions) or "scalar"


def about(ns: Range) -> str:
    """Return a range, with its likely value if the range is wide: ``up to 4 ms (likely 1 ms)``."""
    if ns.low > 0 and ns.high <= WIDE * ns.low:
        return range_text(ns)
    return f"{range_text(ns)} (likely {likely(ns)})"


def likely(ns: Range) -> str:
    """Return the likely value of a range of ns; ``nothing`` if it is not above 0."""
    return range_text(Range(ns.mid, ns.mid, ns.mid)) if ns.mid > 0 else "nothing"


def range_text(ns: Range, figures: int = 2) -> str:
    """Return a range of ns in one unit (``0.4-0.6 ms``), or one figure if both ends print alike.

    A range whose start is negative or prints as 0 is ``up to`` its end, which is a bound: it is rounded up.

    Args:
        ns: the range.
        figures: significant digits of both ends.
    """
    size, unit = next(((s, u) for s, least, u in RANGE_UNITS if ns.high >= least), (1.0, "ns"))
    low, high = _digits(ns.low / size, figures), _digits(ns.high / size, figures)
    if ns.high > 0 and (ns.low <= 0 or low == "0"):
        return f"up to {_bound(ns.high / size, figures)} {unit}"
    return f"{high} {unit}" if low == high else f"{low}-{high} {unit}"


def _bound(value: float, figures: int) -> str:
    """Return the least number of so many significant digits that is not below a positive value."""
    step = 10.0 ** min(0, math.floor(math.log10(value)) + 1 - figures)
    return _digits(math.ceil(value / step - 1e-9) * step, figures)


def _digits(value: float, figures: int = 2) -> str:
    """Return so many significant digits, and all digits before the point."""
    if value == 0 or abs(value) >= 10.0 ** (figures - 1) - 0.05:
        return f"{value:.0f}"
    places = max(0, figures - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(places, figures)}f}".rstrip("0").rstrip(".") or "0"


DOTS: Final = ".."
BRACKETS: Final = re.compile(r"<[^<>]*>|\([^()]*\)")
"""The innermost template arguments or parameters of a C++ name."""
WORD: Final = re.compile(r"(?<=[/_.:\-\s<>(),])")
"""Where a word of a name begins."""
PART: Final = re.compile(r"(?<=[/:.\s<(,])")
"""Where a part of a path, or an argument, begins."""
LEAST_HEAD: Final = 6  # columns of the beginning that stay, where what tells names apart stands further on


def shortened(name: str, width: int) -> str:
    """Return a name in `width` columns: a kernel's arguments go first, then words of the middle."""
    if columns(name) <= width:
        return name
    plain = _without_arguments(name, width)
    if columns(plain) <= width:
        return plain
    whole = shorten(plain, width)
    return _at_words(plain, width) or whole


def distinct(names: Sequence[str], width: int) -> list[str]:
    """Return names in `width` columns; those that would look alike keep the part in which they differ."""
    found = [shortened(name, width) for name in names]
    alike = defaultdict[str, set[str]](set)
    for name, short in zip(names, found, strict=True):
        alike[short].add(name)
    told = {name: short for group in alike.values() if len(group) > 1 for name, short in _apart(group, width).items()}
    return [told.get(name, short) for name, short in zip(names, found, strict=True)]


def _without_arguments(name: str, width: int) -> str:
    """Return a C++ name with its arguments left out, the innermost first, as far as it is too long."""
    name = name.removeprefix("void ")
    while columns(name) > width:
        shorter = BRACKETS.sub("", name).replace("::::", "::").removeprefix("::")
        if shorter == name:
            return name
        name = shorter
    return name


def _at_words(name: str, width: int) -> str | None:
    """Return both ends of a name cut where words begin; None where too little of it would be left."""
    tail_room = (width - len(DOTS)) // 2
    starts = [found.start() for found in WORD.finditer(name)]
    tails = [at for at in starts if columns(name[at:]) <= tail_room]
    if not tails:
        return None
    tail = name[tails[0] :]
    heads = [at for at in starts if columns(name[:at]) <= width - len(DOTS) - columns(tail)]
    head = name[: heads[-1]] if heads else ""
    made = f"{head.rstrip('/_.:- ')}{DOTS}{tail}"
    return made if head and 2 * columns(made) >= width else None


def _apart(names: set[str], width: int) -> dict[str, str]:
    """Return names of one look, each with a beginning, the part in which it differs and its end, as far as they fit."""
    ordered = sorted(names)
    first, last = _common(ordered), _common([name[::-1] for name in ordered])
    made = {}
    for name in ordered:
        end = max(first, len(name) - last)
        room = width - 2 * len(DOTS) - LEAST_HEAD
        begins = [found.start() for pattern in (PART, WORD) for found in reversed(list(pattern.finditer(name)))]
        begin = next((at for at in begins if at <= first and columns(name[at:end]) <= room), first)
        own = beginning(name[begin:end], room)
        head = beginning(name, min(begin, LEAST_HEAD))
        lead = f"{head}{DOTS}" if begin > len(head) else name[:begin]
        rest = width - columns(lead) - columns(own)
        follows = name[end:]
        tail = follows if columns(follows) <= rest else f"{DOTS}{ending(name, rest - len(DOTS))}" if rest > 2 else ""
        if tail == follows and begin > len(head):
            lead = f"{beginning(name, min(begin - 1, width - len(DOTS) - columns(own + tail)))}{DOTS}"
        made[name] = f"{lead}{own}{tail}"
    return made if len(set(made.values())) == len(made) else {name: shorten(name, width) for name in ordered}


def _common(ordered: Sequence[str]) -> int:
    """Return how many characters all names begin with."""
    first, last = min(ordered), max(ordered)
    return next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
