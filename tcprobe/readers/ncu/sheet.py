"""Nsight Compute's CSV as columns: who was launched, and each metric as an array over the launches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tcprobe.errors import WrongFormat
from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.ncu.lines import CUT, NS, SAYS, Header, base_unit, header_of, no_launches
from tcprobe.readers.rows import Texts, cells_of, number_of, rows_as_text, tables_in, triples_of
from tcprobe.schema.columns import FloatArray, IntArray, Names, merge_names
from tcprobe.tensor_metrics import DURATION

GPU_NAME: Final = "device__attribute_display_name"
WHO: Final = ("ID", "Process ID", "Kernel Name", "Grid Size", "Block Size", "Device", "CC", GPU_NAME)
LABELS: Final = {
    "Duration": DURATION,
    "Registers Per Thread": "launch__registers_per_thread",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
}
"""Metrics by what page details calls them, in sections since 2019.5; others keep their label."""
MOST_SAID: Final = 100
LEAST_UNSCALED: Final = 1000.0
MOST_METRICS: Final = 20_000  # ncu offers a few thousand
MOST_CELLS: Final = 500_000_000
_NO_METRIC: Final = frozenset({*WHO, "Process Name", "Host Name", "Kernel Time", "Context", "Stream"})
_SIZE: Final = re.compile(r"\d{1,10}", re.ASCII)
_CAPABILITY: Final = re.compile(r"\d{1,2}\.\d", re.ASCII)


_GROUPS: Final = {".": re.compile(","), ",": re.compile("[.\u00a0\u202f]")}
"""What groups thousands, by decimal sign; in French a hard blank."""
_GROUPED: Final = {
    ".": re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?"),
    ",": re.compile(r"-?[1-9]\d{0,2}(?:[.\u00a0\u202f]\d{3})+(?:,\d+)?"),
}
_PROOFS: Final = {
    ".": re.compile(
        r"-?(?:\d{1,3}(?:,\d{3})+\.\d+|0\.\d+|\d{4,}\.\d+|\d+\.(?:\d{1,2}|\d{4,})|\d{1,3}(?:,\d{3}){2,})(?:[eE][+-]?\d+)?"
    ),
    ",": re.compile(
        r"-?(?:\d{1,3}(?:[.\u00a0\u202f]\d{3})+,\d+|0,\d+|\d{4,},\d+|\d+,(?:\d{1,2}|\d{4,})"
        r"|\d{1,3}(?:[.\u00a0\u202f]\d{3}){2,})(?:[eE][+-]?\d+)?"
    ),
}
"""What numbers look like that have this decimal sign and can have no other: 1.234,5 and 0,123, not 1,234."""


class _DecimalComma(Exception):
    """A number proves that the file's decimal sign is a comma."""


class Metric(Struct, frozen=True):
    """One metric of all launches: values in a base unit, NaN where there is none."""

    values: FloatArray
    unit: str


class Sheet(Struct, frozen=True):
    """What the file holds, a row per launch in its order."""

    who: Mapping[str, Names]  # texts by column, those of `WHO`; blank and missing ones NA
    metrics: Mapping[str, Metric]  # by name as ncu has it, or by label where page details has no other
    said: tuple[str, ...]  # errors and warnings of ncu's in the file
    rows: int  # number of launches
    sign: str = "."  # the decimal sign of its numbers
    long: bool = False  # whether it is page details

    def metric(self, name: str) -> FloatArray:
        """Return a metric's values; NaN throughout where the file lacks it."""
        found = self.metrics.get(name)
        return np.full(self.rows, np.nan) if found is None else found.values

    def texts(self, name: str) -> Names:
        """Return a column of `WHO`; NA throughout where the file lacks it."""
        return self.who.get(name) or Names.missing(self.rows)

    def sizes(self, what: Literal["grid", "block"]) -> Names:
        """Return grids or blocks as x,y,z, from their column or, before 2023, from the metrics of page raw."""
        texts = self.texts(f"{what.title()} Size")
        if (texts.ids >= 0).any():
            return triples_of(texts)
        return rows_as_text([self.metric(f"launch__{what}_dim_{axis}") for axis in "xyz"], ",")

    def devices(self) -> FloatArray:
        """Return CUDA ordinals, NaN where not known."""
        return self.texts("Device").each(lambda text: float(text) if _SIZE.fullmatch(text) else np.nan, np.nan)

    def capabilities(self) -> Names:
        """Return compute capabilities as major.minor, from their column or from the attributes of page raw."""
        texts = self.texts("CC")
        if (texts.ids >= 0).any():
            return texts.map(lambda text: text if _CAPABILITY.fullmatch(text) else None)
        parts = [self.metric(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
        return rows_as_text(parts, ".")


def read_sheet(path: Path) -> Sheet:
    """Read Nsight Compute's CSV, page raw or details, also from within live output or gzip.

    Raises:
        InputError: the file cannot be read, holds no launch, a row does not fit its header, or some of its numbers have
            a decimal comma and others a decimal point.
    """
    try:
        return _sheet(path, ".")
    except _DecimalComma:
        return _sheet(path, ",")


def _sheet(path: Path, sign: str) -> Sheet:
    said: list[str] = []
    tables: list[_Wide | _Long] = []

    def ends(line: str) -> bool:
        """Keep what ncu says; the program may print between the rows."""
        if (found := SAYS.match(line)) and len(said) < MOST_SAID:
            said.append(found[1].strip())
        return False

    for header, numbers, rows in tables_in(path, header_of, ends, CUT):
        if not tables or tables[-1].header is not header:
            tables.append((_Long if header.long else _Wide)(path, header, sign))
        if rows:
            tables[-1].add(numbers, cells_of(path, header, numbers, rows, CUT))
    sheet = _joined([table.sheet() for table in tables], tuple(said))
    if not sheet.rows:
        raise no_launches(path, sheet.said)
    return replace(sheet, sign=sign, long=tables[0].header.long)


class _Table:
    """The rows below one header, added batch by batch."""

    def __init__(self, path: Path, header: Header, sign: str, texts: Sequence[str]) -> None:
        self.path, self.header, self.sign = path, header, sign
        self.places: dict[str, int] = {}
        for place, name in enumerate(header.names):
            self.places.setdefault(name, place)  # of two columns with one name the first counts
        self.known = [name for name in texts if name in self.places]
        self.texts = Texts(self.known)

    def numbers(self, texts: Sequence[str], lines: Sequence[int], united: Iterable[bool]) -> FloatArray:
        """Return texts as numbers, NaN where one is none; those with a unit are no lists of numbers.

        Raises:
            _DecimalComma: a number with a unit can have no other decimal sign.
            WrongFormat: the file has numbers of both signs.
        """
        values = {text: _number(text, self.sign) for text in set(texts)}
        other = _PROOFS["," if self.sign == "." else "."]
        odd = {text for text in values if other.fullmatch(_total(text))}
        for text, line, has_unit in zip(texts, lines, united, strict=True) if odd else ():
            if has_unit and text in odd:
                if self.sign == ".":
                    raise _DecimalComma
                found = f"line {line} holds the number '{_total(text)[:40]}', and others have a comma for decimal sign"
                raise WrongFormat(self.path, found, "run ncu with LC_ALL=C before it, which writes 1234.5")
        return np.array([values[text] for text in texts], np.float64)


def _number(text: str, sign: str) -> float:
    """Return the number in a cell, which may group its thousands and list its parts."""
    whole = _total(text)
    if _GROUPED[sign].fullmatch(whole):
        whole = _GROUPS[sign].sub("", whole)
    return number_of(whole if sign == "." else whole.replace(".", "_").replace(",", "."))  # a point is none of its own


def _total(text: str) -> str:
    """Return what stands before the parts: 12 (5; 7) with --print-metric-instances."""
    return text.partition("(")[0].strip()


class _Wide(_Table):
    """A row per launch, a column per metric; the first row holds units."""

    def __init__(self, path: Path, header: Header, sign: str) -> None:
        super().__init__(path, header, sign, WHO)
        metrics = [name for name in self.places if name not in _NO_METRIC and "Domain:" not in name]
        self.values: dict[str, list[FloatArray]] = {name: [] for name in metrics}
        self.units: dict[str, str] = {}

    def add(self, lines: Sequence[int], rows: Sequence[Sequence[str]]) -> None:
        """Add launches; the first batch holds the row of units."""
        number = self.places["ID"]
        if not self.units:
            has_units = not rows[0][number].strip()
            self.units = {name: rows[0][self.places[name]].strip() if has_units else "" for name in self.values}
        launched = [(line, row) for line, row in zip(lines, rows, strict=True) if row[number].strip()]
        if launched:
            lines, rows = zip(*launched, strict=True)
            columns = list(zip(*rows, strict=True))
            self.texts.add(columns[self.places[name]] for name in self.known)
            for name, values in self.values.items():
                united = repeat(self.units[name] != "", len(lines))
                values.append(self.numbers(columns[self.places[name]], lines, united))

    def sheet(self) -> Sheet:
        """Return all launches added; metrics without a number are left out."""
        who, metrics = self.texts.names(), {}
        for name, parts in self.values.items() if len(who["ID"]) else ():
            factor, unit = base_unit(self.units[name])
            values = np.concatenate(parts) * factor
            if not np.isnan(values).all():
                # without a row of units only what is never printed so in a scaled unit is known to be in ns
                is_ns = name == DURATION and not unit and np.nanmin(values) >= LEAST_UNSCALED
                metrics[name] = Metric(values, NS if is_ns else unit)
        return Sheet(who, metrics, (), len(who["ID"]))


class _Long(_Table):
    """A row per metric of a launch, with its unit; rows of rules have no metric."""

    def __init__(self, path: Path, header: Header, sign: str) -> None:
        super().__init__(path, header, sign, (*WHO, "Metric Name", "Metric Unit"))
        self.values: list[FloatArray] = [np.zeros(0)]

    def add(self, lines: Sequence[int], rows: Sequence[Sequence[str]]) -> None:
        """Add rows."""
        columns = list(zip_longest(*rows, fillvalue=""))
        self.texts.add(columns[self.places[name]] for name in self.known)
        units = columns[self.places["Metric Unit"]] if "Metric Unit" in self.places else [""] * len(rows)
        united = (unit.strip() != "" for unit in units)
        self.values.append(self.numbers(columns[self.places["Metric Value"]], lines, united))

    def sheet(self) -> Sheet:
        """Return the launches, each metric from the first row that gives it."""
        who = self.texts.names()
        metric, unit = who.pop("Metric Name"), who.pop("Metric Unit", None)
        first, launch = distinct_rows(*(who[name].ids for name in ("Process ID", "ID") if name in who))
        values = np.concatenate(self.values)
        factors, units = _factors(unit, len(values))
        _check_size(self.path, len(metric.names), len(first))
        metrics: dict[str, Metric] = {}
        for label, rows in _rows_of(metric, np.isfinite(values)):
            alike = rows[units.ids[rows] == units.ids[rows[0]]][::-1]
            column = np.full(len(first), np.nan)
            column[launch[alike]] = values[alike] * factors[alike]  # the last one written is the first in the file
            metrics.setdefault(LABELS.get(label, label), Metric(column, units[rows[0]] or ""))
        return Sheet({name: column.take(first) for name, column in who.items()}, metrics, (), len(first))


def _rows_of(names: Names, wanted: NDArray[np.bool_]) -> Iterator[tuple[str, IntArray]]:
    """Yield each name with the wanted rows that have it, in order, if there are any."""
    chosen = np.flatnonzero(wanted & (names.ids >= 0))
    chosen = chosen[np.argsort(names.ids[chosen], kind="stable")]
    bounds = np.searchsorted(names.ids[chosen], np.arange(len(names.names) + 1))
    for name, begin, end in zip(names.names, bounds[:-1], bounds[1:], strict=True):
        if end > begin:
            yield name, chosen[begin:end]


def _check_size(path: Path, metrics: int, launches: int) -> None:
    if metrics > MOST_METRICS or metrics * launches > MOST_CELLS:
        found = f"holds {metrics:,} metrics of {launches:,} launches, more than are read"
        raise WrongFormat(path, found, "export fewer of them (--metrics, --launch-count)")


def _factors(unit: Names | None, rows: int) -> tuple[FloatArray, Names]:
    """Return what each row's value is multiplied by, and its base unit."""
    unit = unit or Names.missing(rows)
    return unit.each(lambda name: base_unit(name)[0], 1.0), unit.map(lambda name: base_unit(name)[1])


def _joined(sheets: Sequence[Sheet], said: tuple[str, ...]) -> Sheet:
    """Stack the tables of a file; ncu prints one for each process."""
    if len(sheets) == 1:
        return replace(sheets[0], said=said)
    who = {
        name: merge_names([one.texts(name) for one in sheets])
        for name in dict.fromkeys(name for one in sheets for name in one.who)
    }
    metrics = {}
    for name in dict.fromkeys(name for one in sheets for name in one.metrics):
        unit = next(one.metrics[name].unit for one in sheets if name in one.metrics)
        alike = [name in one.metrics and one.metrics[name].unit == unit for one in sheets]
        parts = [
            one.metric(name) if same else np.full(one.rows, np.nan) for one, same in zip(sheets, alike, strict=True)
        ]
        metrics[name] = Metric(np.concatenate(parts), unit)
    return Sheet(who, metrics, said, sum(one.rows for one in sheets))
