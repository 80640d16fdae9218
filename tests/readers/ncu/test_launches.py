"""Launches in Nsight Compute's CSV, in every dialect, worked by hand; and what is refused."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.errors import EmptyInput, InputError, WrongFormat
from tcprobe.readers import rows
from tcprobe.readers.ncu.lines import base_unit
from tcprobe.readers.ncu.sheet import read_sheet
from tests.fixtures.ncu import make
from tests.fixtures.ncu.make import FIXTURES, GEMM, HMMA, LAUNCHES, MINE, OPS, RELU, SPENT, Launch
from tests.support import examples, shared


@dataclass(frozen=True)
class CountedLaunch:
    """One launch of a sheet; `metrics` by name, those that are no number left out."""

    kernel: str
    grid: str
    block: str
    device: int | None
    capability: str | None
    metrics: dict[str, tuple[float, str]]


def read_launches(path: Path) -> list[CountedLaunch]:
    """Return the launches of a file, row by row."""
    sheet = read_sheet(path)
    found: list[dict[str, tuple[float, str]]] = [{} for _ in range(sheet.rows)]
    for name, metric in sheet.metrics.items():
        for row, value in zip(found, metric.values.tolist(), strict=True):
            if not math.isnan(value):
                row[name] = (value, metric.unit)
    texts = [column.tolist() for column in (sheet.texts("Kernel Name"), sheet.sizes("grid"), sheet.sizes("block"))]
    devices = [None if math.isnan(device) else int(device) for device in sheet.devices().tolist()]
    return [
        CountedLaunch(kernel or "", grid or "", block or "", device, able, values)
        for kernel, grid, block, device, able, values in zip(
            *texts, devices, sheet.capabilities().tolist(), found, strict=True
        )
    ]


Read = Callable[[str | bytes], list[CountedLaunch]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reads(content: str | bytes) -> list[CountedLaunch]:
        path = tmp_path / "x.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_launches(path)

    return reads


def one(metrics: make.Metrics, kernel: str = "k") -> Launch:
    return Launch(kernel, (1, 1, 1), (1, 1, 1), metrics)


def spent(text: str, page: Callable[[list[Launch]], str]) -> bytes:
    return page([one({SPENT: (text, "usecond")})]).encode()


@pytest.mark.parametrize(
    ("unit", "value", "base"),
    [
        ("usecond", 13.056, (13056.0, "ns")),
        ("us", 13.056, (13056.0, "ns")),
        ("ns", 5.0, (5.0, "ns")),
        ("second", 2.0, (2e9, "ns")),
        ("Kbyte", 32.768, (32768.0, "byte")),
        ("Kbyte/block", 29.696, (29696.0, "byte/block")),
        ("Gbyte/second", 1.5, (1.5e9, "byte/second")),
        ("byte/nsecond", 1.5, (1.5e9, "byte/second")),
        ("cycle/nsecond", 1.05, (1.05e9, "cycle/second")),
        ("cycle/usecond", 5.0, (5e6, "cycle/second")),
        ("sector/msecond", 2.0, (2000.0, "sector/second")),
        ("/nsecond", 2.0, (2e9, "/second")),
        ("%/Kbyte", 5.0, (0.005, "%/byte")),
        ("Ghz", 1.2, (1.2e9, "hz")),
        ("%", 39.6, (39.6, "%")),
        ("register/thread", 168.0, (168.0, "register/thread")),
        ("SM", 108.0, (108.0, "SM")),
        ("", 7.0, (7.0, "")),
    ],
)
def test_units_become_base_units(unit: str, value: float, base: tuple[float, str]) -> None:
    factor, name = base_unit(unit)
    assert (value * factor, name) == (pytest.approx(base[0]), base[1])


@pytest.mark.parametrize("name", ["raw.csv", "nvtx.csv", "live.csv", "processes.csv", "packed.csv.gz"])
def test_page_raw_in_all_dialects(read: Read, name: str) -> None:
    found = read(FIXTURES[name])
    assert [x.kernel for x in found] == [GEMM, GEMM, GEMM, RELU, MINE]
    assert [(x.grid, x.block) for x in found[2:]] == [
        ("8,4,1", "128,1,1"),
        ("1024,1,1", "256,1,1"),
        ("1,2,3", "64,2,1"),
    ]
    assert {(x.device, x.capability) for x in found} == {(0, "8.0")}
    assert [x.metrics[SPENT] for x in found[:2]] == [(13056.0, "ns"), (12928.0, "ns")]
    assert found[0].metrics[OPS] == (8589934592.0, "") and found[3].metrics[OPS] == (0.0, "")
    assert found[0].metrics["launch__shared_mem_per_block_dynamic"] == (29696.0, "byte/block")
    assert "device__attribute_display_name" not in found[0].metrics


def test_page_details_with_rules_thousands_and_labels(read: Read) -> None:
    """1,234,567 cycles; Duration is gpu__time_duration.sum; a label without a metric's name stays."""
    found = read(FIXTURES["details.csv"])
    assert [x.kernel for x in found] == [x.kernel for x in LAUNCHES]
    assert found[0].metrics == {
        "Elapsed Cycles": (1234567.0, "cycle"),
        SPENT: (13056.0, "ns"),
        "Memory Throughput": (39.6, "%"),
        "launch__registers_per_thread": (168.0, "register/thread"),
        HMMA: (53261312.0, "inst"),
    }
    assert found[3].metrics[HMMA] == (0.0, "inst")


def test_details_scale_each_row_by_itself_and_the_first_of_two_sections_counts(read: Read) -> None:
    launches = [
        one({SPENT: ("900.00", "nsecond"), "Throughput": ("5.00", "%")}),
        one({SPENT: ("1.50", "msecond"), "Throughput": ("6.00", "byte/second")}),
    ]
    text = make.details(launches)
    again = text.splitlines()[2].replace('"5.00"', '"7.00"')
    found = read(text + again)
    assert [x.metrics[SPENT] for x in found] == [(900.0, "ns"), (1.5e6, "ns")]
    assert found[0].metrics["Throughput"] == (5.0, "%")
    assert "Throughput" not in found[1].metrics  # in another unit it is another metric


def test_headers_before_2023_have_neither_grid_nor_gpu(read: Read) -> None:
    found = read(FIXTURES["old.csv"])[0]
    assert (found.kernel, found.grid, found.block, found.device, found.capability) == (GEMM, "", "", None, None)
    shape = {
        f"launch__{what}_dim_{axis}": (n, "") for what, n in (("grid", "4"), ("block", "32.000000")) for axis in "xyz"
    }
    able = {f"device__attribute_compute_capability_{part}": (n, "") for part, n in (("major", "7"), ("minor", "5"))}
    found = read(make.raw([one({**shape, **able})], old=True))[0]
    assert (found.grid, found.block, found.capability) == ("4,4,4", "32,32,32", "7.5")


def test_what_is_no_number_is_left_out(read: Read) -> None:
    texts = ["n/a", "no data", "nan", "inf", "", "CachePreferNone", "1,2", "12 (5; 7)", "-3.5", "1e3", "1e300"]
    found = read(make.raw([one({f"m__{i}": (text, "") for i, text in enumerate(texts)})]))[0]
    assert found.metrics == {"m__7": (12.0, ""), "m__8": (-3.5, ""), "m__9": (1000.0, "")}


def test_without_a_row_of_units_a_time_is_ns_where_no_scaled_unit_prints_it(read: Read) -> None:
    def times(*texts: str) -> list[tuple[float, str]]:
        return [x.metrics[SPENT] for x in read(make.raw([one({SPENT: (text, "")}) for text in texts], units=False))]

    assert times("13056", "1024") == [(13056.0, "ns"), (1024.0, "ns")]
    assert times("13.056", "1024") == [(13.056, ""), (1024.0, "")]


@pytest.mark.parametrize("name", ["live.csv", "details.csv", "processes.csv"])
def test_rows_are_read_in_batches_and_nothing_is_lost(read: Read, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(FIXTURES[name])
    monkeypatch.setattr(rows, "CELLS", 40)  # one to two rows
    assert read(FIXTURES[name]) == whole


def test_a_quoted_cell_may_hold_a_line_end(read: Read) -> None:
    assert read(make.raw([one({OPS: ("3", "")}, 'a\n"b", c')]))[0].kernel == 'a\n"b", c'


@pytest.mark.parametrize(
    ("content", "kind", "found", "hint"),
    [
        (FIXTURES["raw.csv"][:-9], WrongFormat, "ends within a quoted cell of the row that begins in line 7", "again"),
        (FIXTURES["details.csv"][:3000], WrongFormat, "ends within a quoted cell", "wait until ncu has ended"),
        (make.raw().rsplit(',"', 1)[0].encode(), WrongFormat, "line 7 has 22 cells where its header has 23", "cut off"),
        (make.raw().splitlines()[0].encode(), EmptyInput, "holds no launch", "ncu --csv --page raw"),
        (b"", EmptyInput, "holds nothing", "record again"),
        (b"\x00\xff\x10binary", EmptyInput, "holds no launch", "ncu --csv --page raw"),
        (FIXTURES["packed.csv.gz"][:200], WrongFormat, "is damaged", "export it again"),
        (make.DENIED.encode(), EmptyInput, "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        (make.FILTERED.encode(), EmptyInput, "ncu says 'No kernels were profiled.'", "--target-processes all"),
        (b"==ERROR== The application crashed.\n", EmptyInput, "ncu says 'The application crashed.'", "record again"),
        (b"NVR\0\2\0", WrongFormat, "own report", "ncu --import x.csv --csv --page raw > x.csv"),
        (
            make.raw([one({SPENT: (text, "usecond")}) for text in ("52,576000", "13.056", "39.60")]).encode(),
            WrongFormat,
            "line 5 holds the number '39.60', and others have a comma for decimal sign",
            "LC_ALL=C",
        ),
        (spent("1.234,50", make.details) + spent("0.5", make.details), WrongFormat, "the number '0.5'", "LC_ALL=C"),
    ],
    ids=lambda value: "" if isinstance(value, bytes | type) else str(value)[:30],
)
def test_refusals_say_what_was_found_and_what_to_do(
    read: Read, content: bytes, kind: type[InputError], found: str, hint: str
) -> None:
    with pytest.raises(kind) as error:
        read(content)
    assert found in error.value.found and hint in str(error.value.hint)


@pytest.mark.parametrize("page", [make.raw, make.details])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("52,576000", 52.576), ("1.234,50", 1234.5), ("0,123", 0.123), ("1234,567", 1234.567), ("12,5 (5; 7)", 12.5)),
        *(("1.234.567", 1234567), ("1\u202f234,5", 1234.5), ("1,5e+03", 1500), ("-3,25", -3.25)),
    ],
)
def test_a_decimal_comma_that_a_number_proves_holds_for_the_whole_file(
    read: Read, page: Callable[[list[Launch]], str], text: str, value: float
) -> None:
    """1.234 and 13,056 can be read either way, and are read as the other number is; without a unit too."""
    launches = [one({OPS: ("1.234", ""), SPENT: ("13,056", "usecond"), "m__x": ("7", "%")}), one({"m__x": (text, "%")})]
    first, second = read(page(launches))
    assert second.metrics["m__x"] == (value, "%")
    assert first.metrics == {OPS: (1234.0, ""), SPENT: (pytest.approx(13056), "ns"), "m__x": (7.0, "%")}


def test_what_can_be_read_either_way_alone_has_a_point(read: Read) -> None:
    (found,) = read(make.raw([one({OPS: ("1,234", ""), SPENT: ("13.056", "usecond"), "m__x": ("0,5", "")})]))
    assert found.metrics == {OPS: (1234.0, ""), SPENT: (13056.0, "ns")}


def test_utf_16_as_windows_shells_write_it(read: Read) -> None:
    assert [x.metrics[SPENT][0] for x in read(FIXTURES["utf16.csv"])] == [13056.0, 12928.0]


LINE_ENDS = "\r\n\x00\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters=LINE_ENDS)).map(lambda text: f"k{text.strip()}")
VALUES = st.floats(-1e20, 1e20)
ROWS = st.lists(st.tuples(NAMES, VALUES, VALUES), min_size=1, max_size=4)


@given(ROWS, st.booleans(), st.booleans())
@settings(max_examples=examples(30))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float, float]], page: bool, talk: bool
) -> None:
    launches = [one({SPENT: (repr(a), "msecond"), OPS: (repr(b), "inst")}, kernel) for kernel, a, b in rows]
    text = make.raw(launches) if page else make.details(launches)
    path = tmp_path_factory.getbasetemp() / "round.csv"
    path.write_text(make.live(text) if talk else text, encoding="utf-8")
    found = read_launches(path)
    assert [x.kernel for x in found] == [kernel for kernel, _, _ in rows]
    assert [(x.metrics[SPENT][0], x.metrics[OPS][0]) for x in found] == [
        (pytest.approx(a * 1e6), pytest.approx(b)) for _, a, b in rows
    ]


@pytest.mark.parametrize("name", ["mlp_t4", "cutlass_int8_a100"])
def test_each_cell_of_real_reports_is_read(name: str) -> None:
    """Against the plain cells: as many numbers, each the same but for its unit."""
    path = shared(f"samples/ncu/{name}.raw.csv")
    head, units, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    found = read_launches(path)
    assert len(found) == len(rows)
    for launch, row in zip(found, rows, strict=True):
        cells = dict(zip(head, zip(row, units, strict=True), strict=True))
        assert launch.kernel == cells["Kernel Name"][0]
        assert cells["Grid Size"][0] == f"({launch.grid.replace(',', ', ')})"
        for metric, (value, unit) in launch.metrics.items():
            text, printed = cells[metric]
            factor, base = base_unit(printed)
            assert math.isclose(value, float(text) * factor) and unit == base
    assert len(found[0].metrics) > 1000
