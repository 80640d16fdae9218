"""The page in a browser: it asks for nothing, does what its tools say, shows the CSV's figures, and runs no name."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tcprobe.report.document import ReportSpec
from tcprobe.report.run.document import RunDocument
from tcprobe.report.run.figures import label, value_text
from tcprobe.report.run.pictures import OF_CHOSEN
from tests.browser.tabs import KERNELS, SOURCES, Tab, barriers_in_both_colours, of_path
from tests.readers.nsys.made import Made, small
from tests.report.builders import Plain, gpu_profile, rendered
from tests.report.test_door import NASTY, blocks, documents
from tests.support import ROOT, shared

pytestmark = pytest.mark.browser


@pytest.fixture
def tab(browser: Any, folder: Path) -> Iterator[Tab]:
    made = Tab(browser, folder / "run.html", of_path(SOURCES["run folder"]))
    made.fold_out()
    yield made
    assert made.is_quiet(), made.said
    made.context.close()


@pytest.mark.parametrize("name", [*SOURCES, "Nsight Systems"])
def test_every_source_has_a_page_that_loads_nothing(name: str, browser: Any, folder: Path, tmp_path: Path) -> None:
    if name == "Nsight Systems":
        small().write(tmp_path / "made.sqlite")
    document = of_path(SOURCES.get(name, tmp_path / "made.sqlite"))
    tab = Tab(browser, folder / "source.html", document)
    assert tab.is_quiet(), (tab.said, tab.requests)
    assert tab.page.locator("details .tools").count() == tab.page.locator("table.data").count() > 0
    tab.page.set_viewport_size({"width": 400, "height": 800})
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 400
    tab.context.close()


def kernels_of_csv() -> list[dict[str, str]]:
    text = rendered("csv", RunDocument(of_path(SOURCES["run folder"]).profile, ReportSpec()))
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_headings_sort_by_the_figures_of_the_csv(tab: Tab) -> None:
    head = tab.page.locator(f"{KERNELS} th[data-c=sum_ns]")
    times = sorted((float(row["sum_ns"]) for row in kernels_of_csv()), reverse=True)
    for order, wanted in (("descending", times), ("ascending", times[::-1])):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == order
        assert list(map(float, tab.column("sum_ns"))) == wanted[:20]
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") is None


def test_search_and_filter_keep_rows_and_stand_in_the_address(tab: Tab, browser: Any) -> None:
    tab.page.get_by_label("search Kernels", exact=True).fill("GEMM")
    wanted = [row["kernel"] for row in kernels_of_csv() if row["uses_tc"] == "yes"]
    tab.page.locator("details:has(> div #kernels) label:has-text('uses TC') > select").select_option("yes")
    found = tab.column("kernel")
    assert found and set(found) <= set(wanted)
    assert all("gemm" in name.lower() for name in found)
    other = browser.new_context().new_page()
    other.goto(tab.page.url)
    assert other.locator(f"{KERNELS} tbody tr").count() == len(found)
    other.context.close()


def test_pages_turn(tab: Tab) -> None:
    first, tools = tab.column("kernel"), tab.page.locator("details:has(> div #kernels) .tools")
    tools.get_by_label("next page").click()
    assert len(first) == 20 and tab.column("kernel") != first
    assert tools.get_by_role("status").inner_text().startswith("21 to 40 of")
    tools.get_by_label("previous page").click()
    assert tab.column("kernel") == first


def test_a_row_opens_its_evidence_its_whole_name_and_its_op(tab: Tab) -> None:
    row = next(row for row in kernels_of_csv() if len(row["kernel"]) > 48 and row["op"])
    tab.page.get_by_label("search Kernels", exact=True).fill(row["kernel"])
    tab.page.locator(f"{KERNELS} .open").first.press("Enter")
    more = tab.page.locator(f"{KERNELS} .more")
    told = more.inner_text()
    assert row["kernel"] in told and row["evidence"] in told and row["op"] in told and row["grid"] in told
    more.get_by_role("button", name="show").first.click()
    assert "is." in tab.page.url
    tab.page.locator(f"{KERNELS} .open").first.click()
    assert more.count() == 0


def test_a_row_is_copied_whole(browser: Any, folder: Path) -> None:
    tab = Tab(browser, folder / "run.html", of_path(SOURCES["run folder"]), permissions=["clipboard-write"])
    tab.page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; }")
    tab.fold_out()
    tab.page.locator(f"{KERNELS} .open").first.click()
    tab.page.get_by_role("button", name="copy row").click()
    lines = [line.split("\t") for line in tab.page.evaluate("window.copied").splitlines()]
    row = next(row for row in kernels_of_csv() if ["kernel", row["kernel"]] in lines)
    assert ["registers", row["registers"]] in lines and ["evidence", row["evidence"]] in lines
    tab.context.close()


def test_colours_are_the_systems_until_the_reader_chooses(tab: Tab, browser: Any) -> None:
    background = "getComputedStyle(document.querySelector('main')).backgroundColor"
    canvas = tab.page.locator("section.timeline canvas")
    light, drawn = tab.page.evaluate(background), canvas.screenshot()
    tab.page.get_by_role("button", name="dark colours").click()
    assert tab.page.evaluate(background) != light and canvas.screenshot() != drawn
    again = browser.new_context().new_page()
    again.goto(tab.page.url)
    assert again.evaluate(background) == tab.page.evaluate(background)
    again.emulate_media(media="print")
    assert again.evaluate(background) == light
    again.context.close()
    tab.page.get_by_role("button", name="light colours").click()
    assert tab.page.evaluate(background) == light


def test_columns_are_chosen(tab: Tab) -> None:
    head = tab.page.locator(f"{KERNELS} th[data-c=registers]")
    assert not head.is_visible()
    tab.page.get_by_label("columns of Kernels", exact=True).click()
    tab.page.locator("details:has(> div #kernels)").get_by_label("registers").check()
    assert head.is_visible()


def late(folder: Path) -> Path:
    """Write a recording of steps of unlike length on two GPUs, whose kernels run on into the next step."""
    made, begin = Made(), 0
    for gpu in range(2):
        made.gpu(gpu, "NVIDIA H100 80GB HBM3", smCount=132, computeMajor=9, computeMinor=0, cuDevice=gpu)
    for step, length in enumerate((1000, 5000, 1000, 1700, 1000, 3300, 1000, 1250)):
        begin, at = begin + 1000 * length, begin
        made.range(f"ProfilerStep#{step}", at, begin - 1000)
        for gpu, (name, runs) in enumerate((("nvjet_tst_128x128_64x6_2x1_v_bz_TNT", 700), ("elementwise_kernel", 333))):
            start = begin - 400_000 * (gpu + 1)
            made.launch(name, at + 10_000, start, start + 1000 * runs + length, deviceId=gpu)
    return made.write(folder / "late.sqlite")


@pytest.mark.parametrize(
    ("source", "windows"),
    [("TensorFlow", ((2, 4),)), ("nsys", ((1, 7), (2, 2))), ("PyTorch", ((4, 5),))],
)
def test_another_window_has_the_figures_of_its_report_and_the_page_says_that_the_rest_has_not(
    source: str, windows: tuple[tuple[int, int], ...], browser: Any, folder: Path
) -> None:
    if source == "PyTorch":
        path = shared("samples/kineto/a100_nccl.json.gz")
    else:
        path = late(folder) if source == "nsys" else SOURCES["run folder"]
    tab = Tab(browser, folder / "window.html", of_path(path))
    output, banner = tab.page.locator(".columns output"), tab.page.locator(".chosen")
    assert not banner.is_visible()
    for start, stop in windows:
        tab.page.get_by_label("first iteration").fill(str(start))
        tab.page.get_by_label("last iteration").fill(str(stop))
        asked = ["report", str(path), "--iter-start", str(start), "--iter-stop", str(stop), "--json"]
        ran = subprocess.run([sys.executable, "-m", "tcprobe", *asked], cwd=ROOT, capture_output=True, check=True)
        summary = {row["metric"]: row for row in json.loads(ran.stdout)["summary"]}
        wanted = {label(name): value_text(name, summary[name]) for name in OF_CHOSEN}
        told = zip(output.locator("dt").all_inner_texts(), output.locator("dd").all_inner_texts(), strict=True)
        assert dict(told) == wanted
        assert f"--iter-start {start} --iter-stop {stop}" in banner.inner_text()
        assert f"window={start}_{stop}" in tab.page.url
    again = browser.new_context().new_page()
    again.goto(tab.page.url)
    assert again.locator(".chosen").inner_text() == banner.inner_text()
    again.context.close()
    tab.page.get_by_label("first iteration").fill(str(stop + 1))
    assert "none of these" in output.inner_text() and not banner.is_visible()
    assert tab.is_quiet(), tab.said
    tab.context.close()


def test_the_csv_of_the_page_has_the_figures_of_the_csv(tab: Tab) -> None:
    with tab.page.expect_download() as download:
        tab.page.locator("details:has(> div #kernels)").get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"), newline="")))
    names = {"kernel": "kernel", "time": "sum_ns", "calls": "calls", "uses TC": "uses_tc", "min": "min_ns"}
    kernels = kernels_of_csv()
    assert len(rows) == len(kernels)
    for shown, column in names.items():
        assert sorted(row[shown] for row in rows) == sorted(row[column] for row in kernels), shown


def test_without_a_script_all_rows_are_there(browser: Any, folder: Path) -> None:
    tab = Tab(browser, folder / "run.html", of_path(SOURCES["run folder"]), java_script_enabled=False)
    assert tab.page.locator(f"{KERNELS} tbody tr").count() == len(kernels_of_csv())
    assert tab.page.locator(".verdict").is_visible() and not tab.page.locator(".tools").count()
    tab.context.close()


HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg onload=alert(3)>",
    "{{ 7 * 7 }} ${alert(1)} `alert(1)` javascript:alert(1)",
    "k" * 100_000 + "</style></table>",
    NASTY,
)


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_no_name_runs_or_steers(at: int, browser: Any, folder: Path) -> None:
    name = HOSTILE[at]
    profile = gpu_profile()
    names = profile.require("kernels").names("kernel").map(lambda one: f"{name}{one}")
    hostile = profile.with_tables(profile.require("kernels").with_columns(kernel=names))
    harmless = RunDocument(profile, ReportSpec(web=True)), Plain(blocks("name"))
    for document, plain in zip(
        (RunDocument(hostile, ReportSpec(web=True)), Plain(blocks(name))), harmless, strict=True
    ):
        tab = Tab(browser, folder / "hostile.html", document)
        assert tab.is_quiet(), (tab.said, tab.requests)
        assert tab.page.locator("script").count() == rendered("html", plain).count("<script")
        assert tab.page.locator("img").count() == 0
        tab.page.evaluate("document.querySelectorAll('main > details').forEach((one) => { one.open = true; })")
        tab.page.locator("table.data .open").first.click()
        assert tab.page.locator(".more").count() == 1 and tab.is_quiet()
        if len(name) < 1000 and name != NASTY:
            assert name in tab.page.locator(".more").first.inner_text()
        tab.context.close()


def test_profiles_full_of_hostile_names_load(browser: Any, folder: Path) -> None:
    for name in ("gpu_run/run", "dlprof/tf2_1.8", "phases"):
        tab = Tab(browser, folder / "hostile.html", documents()[name])
        assert tab.is_quiet(), (name, tab.said)
        tab.context.close()


def test_nothing_serious_bars_anyone(browser: Any, folder: Path) -> None:
    document = of_path(SOURCES["run folder"])
    tab = Tab(browser, folder / "run.html", document, bypass_csp=True)
    tab.fold_out()
    tab.page.locator(f"{KERNELS} .open").first.click()
    assert not barriers_in_both_colours(tab)
    tab.context.close()


def test_the_timeline_zooms_finds_and_tells(browser: Any, folder: Path) -> None:
    tab = Tab(browser, folder / "timeline.html", of_path(SOURCES["run folder"]))
    section, canvas = tab.page.locator("section.timeline"), tab.page.locator("section.timeline canvas")
    canvas.scroll_into_view_if_needed()
    before = canvas.screenshot()
    canvas.focus()
    tab.page.keyboard.press("+")
    tab.page.keyboard.press("ArrowRight")
    tab.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert canvas.screenshot() != before
    section.get_by_label("search the timeline").fill("wgrad2d_grouped")
    assert "slices" in section.locator(".tools").inner_text()
    tab.page.keyboard.press("Enter")
    status = section.locator("[role=status]")
    assert "wgrad2d_grouped" in status.inner_text() and "stream 13" in status.inner_text()
    canvas.focus()
    tab.page.keyboard.press("n")
    assert status.inner_text() and "wgrad2d_grouped" not in status.inner_text()
    assert tab.is_quiet()
