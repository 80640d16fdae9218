"""What pages draw, in a browser: rooflines, curves, bars of runs; on the page of every verb, whatever names are.

`pytest --browser --pictures FOLDER tests/browser` also writes pictures of pages, a PNG each, for the guides.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.analysis import Options
from tcprobe.flows.compare import make_comparison
from tcprobe.report.audit.document import AuditDocument
from tcprobe.report.compare.document import CompareDocument
from tcprobe.report.document import Document, ReportSpec
from tcprobe.report.sweep.document import SweepDocument
from tests.browser.tabs import SOURCES, Tab, barriers_in_both_colours, of_path
from tests.fixtures.gpu_run import variants
from tests.fixtures.gpu_run.make import RUN, load
from tests.report.audit.builders import REPORTS, SPEC
from tests.report.builders import gpu_profile
from tests.report.compare.builders import faster
from tests.report.sweep.test_golden import measured

pytestmark = pytest.mark.browser
WEB = ReportSpec(web=True)
VERBS = ("compare", "sweep", "audit-shapes")


@cache
def in_float32(folder: Path) -> Path:
    """Return a run as that of the fixture, in float32 with TF32 off."""
    run = load(RUN)
    variants.tf32_off(run)
    run.write(folder / "float32")
    return folder / "float32"


def document(verb: str, folder: Path) -> Document:
    if verb == "compare":
        return CompareDocument(make_comparison([in_float32(folder), RUN], Options()), WEB)
    if verb == "sweep":
        return SweepDocument(measured(), WEB)
    return AuditDocument(REPORTS["findings"](), replace(SPEC, web=True))


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_of_a_verb_begins_with_its_answer_and_bars_nobody(verb: str, browser: Any, folder: Path) -> None:
    tab = Tab(browser, folder / f"{verb}.html", document(verb, folder), bypass_csp=True)
    assert tab.is_quiet(), (tab.said, tab.requests)
    assert tab.page.locator("main > :nth-child(2)").get_attribute("class") == "first"
    assert tab.page.locator(".verdict").is_visible()
    for width in (1280, 400):
        tab.page.set_viewport_size({"width": width, "height": 800})
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not barriers_in_both_colours(tab)
    tab.context.close()


def test_a_comparison_draws_runs_on_one_scale_and_what_changed(browser: Any, folder: Path) -> None:
    tab = Tab(browser, folder / "compare.html", document("compare", folder))
    beside, changed = (tab.page.locator("section.bars").nth(at) for at in (0, 1))
    wide = beside.locator("tr").evaluate_all(
        "all => all.map(row => [...row.querySelectorAll('rect')].reduce((sum, n) => sum + n.width.baseVal.value, 0))"
    )
    times = beside.locator("td:last-child").all_inner_texts()
    lengths = [float(text.split()[0]) for text in times]
    assert wide[1] / wide[0] == pytest.approx(lengths[1] / lengths[0], rel=0.02), times
    assert "got faster and slower" in changed.inner_text() and changed.locator("rect.t-used").count()
    tab.context.close()


def test_a_point_of_the_roofline_tells_its_op_and_leads_to_its_row(browser: Any, folder: Path) -> None:
    tab = Tab(browser, folder / "run.html", of_path(SOURCES["run folder"]))
    point = tab.page.locator(".roofline circle").first
    name = point.get_attribute("data-op")
    assert (point.locator("title").text_content() or "").startswith(f"{name}: ")
    box = tab.page.locator(".roofline svg[role=img]").bounding_box()
    for at in tab.page.locator(".roofline circle").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().toJSON())"
    ):
        middle = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
        assert box["x"] - 1 <= middle[0] <= box["x"] + box["width"] + 1
        assert box["y"] - 1 <= middle[1] <= box["y"] + box["height"] + 1
    point.dispatch_event("click")
    assert tab.column("op", "#ops") == [name]
    tab.context.close()


def test_curves_tell_the_figures_of_a_step_and_are_there_without_a_script(browser: Any, folder: Path) -> None:
    tab = Tab(browser, folder / "sweep.html", document("sweep", folder))
    chart = tab.page.locator(".charts figure").nth(1)
    assert chart.locator("canvas").count() == 1 and chart.locator("svg").count() == 0
    plot, legend = chart.locator(".plot"), chart.locator(".u-legend")
    plot.focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowRight")
    told = legend.locator(".u-value").all_inner_texts()
    assert told == ["1", "0.5", "0.51", "0.52", "0.53"]  # 1 / (1 + 1), and 0.01 more for each combination
    tab.page.keyboard.press("0")
    assert tab.is_quiet(), tab.said
    tab.context.close()
    still = Tab(browser, folder / "sweep.html", java_script_enabled=False)
    assert still.page.locator(".charts figure svg[role=img]").first.is_visible()
    assert "last nan" in still.page.locator(".charts figure").nth(1).inner_text()
    still.context.close()


def test_no_name_runs_or_steers_on_the_pages_of_other_verbs(browser: Any, folder: Path) -> None:
    name = "</script><img src=x onerror=alert(1)>\"'>"
    run = replace(faster(), names=(name, name), losses=())
    logged = gpu_profile().require("metrics")
    names = logged.names("name").map(lambda one: f"{name}loss{one}")
    profiles = tuple(gpu_profile().with_tables(logged.with_columns(name=names)) for _ in run.names)
    documents = (
        CompareDocument(replace(run, profiles=profiles), WEB),
        SweepDocument(replace(measured(), folder=name), WEB),
        AuditDocument(REPORTS["findings"](), replace(SPEC, web=True)),
    )
    for one in documents:
        tab = Tab(browser, folder / "hostile.html", one)
        assert tab.is_quiet(), (tab.said, tab.requests)
        assert tab.page.locator("img").count() == 0
        tab.context.close()


RECORDED = ("jax_float32", "jax_tf32")
PICTURES = {
    "report": ("XSpace, JAX", "light", None),
    "report-dark": ("XSpace, JAX", "dark", None),
    "roofline": ("run folder", "light", "section.roofline"),
    "timeline": ("XSpace, JAX", "light", "section.timeline"),
    "row": ("XSpace, JAX", "light", None),
    "compare": ("recorded", "light", None),
    "sweep": ("sweep", "light", None),
    "audit-shapes": ("audit-shapes", "light", None),
}
"""Name of the file -> page, colours, and the part of it; None is what fits a screen."""


def shown(page: str, folder: Path) -> Document:
    if page == "recorded":
        runs = [SOURCES["XSpace, JAX"].with_name(f"{name}.xplane.pb") for name in RECORDED]
        return CompareDocument(make_comparison(runs, Options()), WEB)
    return of_path(SOURCES[page]) if page in SOURCES else document(page, folder)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_for_the_guides(name: str, browser: Any, folder: Path, request: pytest.FixtureRequest) -> None:
    if (wanted := request.config.getoption("--pictures")) is None:
        pytest.skip("writes pictures: run with --pictures FOLDER")
    page, scheme, part = PICTURES[name]
    tab = Tab(browser, folder / f"{name}.html", shown(page, folder), color_scheme=scheme)
    tab.page.set_viewport_size({"width": 1000, "height": 720})
    if name == "row":
        tab.fold_out()
        tab.page.locator("#kernels .open").first.click()
        tab.page.evaluate("document.querySelector('#kernels').closest('details').scrollIntoView()")
    file = Path(wanted) / f"{name}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    if part is None:
        tab.page.screenshot(path=str(file))
    else:
        tab.page.locator(part).first.screenshot(path=str(file))
    assert tab.is_quiet()
    tab.context.close()
    image = import_module("PIL.Image")
    with image.open(file) as taken:  # in its 64 most unlike colours, of which a page has few, it takes a third
        taken.convert("RGB").quantize(64, image.Quantize.MAXCOVERAGE).save(file, optimize=True)
    assert 5_000 < file.stat().st_size < 60_000
