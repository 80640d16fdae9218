"""The page in a browser: it asks for nothing, does what its tools say, shows the CSV's figures, and runs no name."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis import Options
from tcprobe.flows.report import make_report
from tcprobe.formatting import duration
from tcprobe.report.document import ReportSpec
from tcprobe.report.run.document import RunDocument
from tcprobe.report.run.figures import value_text
from tests.browser.tabs import KERNELS, SOURCES, Tab, of_path
from tests.readers.nsys.made import small
from tests.report.builders import Plain, gpu_profile, rendered
from tests.report.test_door import NASTY, blocks, documents

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


def test_columns_are_chosen(tab: Tab) -> None:
    head = tab.page.locator(f"{KERNELS} th[data-c=registers]")
    assert not head.is_visible()
    tab.page.get_by_label("columns of Kernels", exact=True).click()
    tab.page.locator("details:has(> div #kernels)").get_by_label("registers").check()
    assert head.is_visible()


def test_another_window_has_the_share_that_the_report_of_it_has(tab: Tab) -> None:
    tab.page.get_by_label("first iteration").fill("2")
    tab.page.get_by_label("last iteration").fill("4")
    found = make_report(SOURCES["run folder"], Options(2, 4))
    share, spent, kernels = (found.figure(name) for name in ("tc_kernel_time_pct", "kernel_time_ns", "kernels"))
    assert share is not None and spent is not None and kernels is not None
    text = f"{value_text('tc_kernel_time_pct', share)} of the kernel time on Tensor Cores; "
    text += f"{duration(spent['value'])} of {kernels['value']:,.0f} kernels; "
    assert tab.page.locator(".columns output").inner_text().startswith(text)
    assert "window=2_4" in tab.page.url


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_bars_anyone(scheme: str, browser: Any, folder: Path) -> None:
    if find_spec("axe_playwright_python") is None:
        pytest.skip("no axe-core here: .ci/browser gets it where it can be had")
    document = of_path(SOURCES["run folder"])
    tab = Tab(browser, folder / "run.html", document, bypass_csp=True, color_scheme=scheme)
    tab.fold_out()
    tab.page.locator(f"{KERNELS} .open").first.click()
    found = import_module("axe_playwright_python.sync_playwright").Axe().run(tab.page).response["violations"]
    told = [(one["id"], one["nodes"][0]["html"][:120]) for one in found if one["impact"] in ("serious", "critical")]
    assert not told
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
