"""The page: it loads nothing, says what the terminal says, shows the figures of the CSV, and is nobody's markup."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.analysis import Options
from tcprobe.flows.report import make_report
from tcprobe.report import Renderer, RenderSpec
from tcprobe.report.document import Document, Remark, Remarks, ReportSpec, TextLine
from tcprobe.report.drawn import Column, Columns, Part
from tcprobe.report.html import _text
from tcprobe.report.html.draw import HEIGHT, areas, placed
from tcprobe.report.run.about import loss_scale_sentence
from tcprobe.report.run.bar import MOST_ROWS, labelled, shares_of
from tcprobe.report.run.document import RunDocument
from tcprobe.report.run.pictures import first_of, rings_of, steps_of, tree_of
from tcprobe.report.run.screen import screen_of
from tcprobe.schema.profile import LossScaleNeed
from tcprobe.schema.screen import Answer, Bar, BarRow, FirstScreen, RowKind
from tcprobe.schema.statement import say
from tests.report.builders import MS, PROFILES, Plain, figure, gpu_profile, rendered, table
from tests.report.test_door import NAMES, blocks
from tests.support import ROOT, shared

TWO_GPUS = ROOT / "tests" / "fixtures" / "xplane" / "two_gpus.xplane.pb"
VOID = {"meta", "link", "input", "br"}
ENDS = {"td": {"td"}, "th": {"th"}, "tr": {"td", "tr"}, "tbody": {"th", "tr", "thead"}}
"""What a tag ends that has no end of its own."""


class Parsed(HTMLParser):
    """A page as a browser takes it apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"style": [], "script": []}
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        while self.open and self.open[-1] in ENDS.get(tag, ()):
            self.open.pop()
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while tag == "table" and self.open[-1] in ("td", "tr", "tbody"):
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.inside:
            self.inside[self.open[-1]][-1] += data
        else:
            self.text.append(data)

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@cache
def page(name: str = "gpu") -> str:
    return rendered("html", RunDocument(PROFILES[name](), ReportSpec(web=True)))


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def words(line: TextLine) -> str:
    return "".join(part.text for part in line.parts)


@pytest.mark.parametrize("name", PROFILES)
def test_it_loads_nothing_and_runs_what_it_hashes(name: str) -> None:
    made = Parsed(page(name))
    assert not made.open
    assert not [a for _, attributes in made.tags for a in attributes if a == "style" or a.startswith("on")]
    assert {a["href"] for a in made.find("link")} == {"data:,"}
    assert not [t for t, a in made.tags if t in ("img", "iframe", "object", "base", "form") or "src" in a]
    policy = next(str(a["content"]) for a in made.find("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    data = [a.get("type") in ("application/json", "text/plain") for a in made.find("script")]
    scripts = [text for text, inert in zip(made.inside["script"], data, strict=True) if not inert]
    allowed = [" ".join(f"'sha256-{digest(text)}'" for text in texts) for texts in (made.inside["style"], scripts)]
    assert f"style-src {allowed[0]}; script-src {allowed[1]};" in policy
    ids = [a["id"] for _, a in made.tags if "id" in a]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", PROFILES)
def test_the_first_screen_says_what_the_terminal_says(name: str) -> None:
    profile = PROFILES[name]()
    first = first_of(profile)
    if first is None:  # nothing but a summary
        assert not screen_of(profile).lines
        return
    told = " ".join(" ".join(words(line).split()) for line in screen_of(profile).lines)
    said = ["".join(first.verdict), *first.more, first.title, first.total, first.left, first.nothing]
    said += [part.label for part in first.parts] + [part.text for part in first.parts] + [first.sure]
    for task in first.tasks:  # a terminal has room for some of the ways
        said += [task.title.partition(":")[0], task.why, task.code, *(saved for _, saved in task.saves)]
    assert not [text for text in said if " ".join(text.split()) not in told]
    assert sum(part.pct for part in first.parts) == pytest.approx(100 if first.parts else 0)
    assert "".join(first.verdict) in "".join(Parsed(page(name)).text)


def test_it_has_the_answer_on_loss_scaling_too() -> None:
    need = LossScaleNeed("lost", "gone", "a", 3.0, 1.0, False, 3.0, 0.0, 1024.0, 0.0, 0.0, 9, 100.0)
    profile = replace(gpu_profile(), loss_scale_need=need)
    first = first_of(profile)
    assert first is not None and first.more[-1] == loss_scale_sentence(need)
    assert first.more[-1] in " ".join(" ".join(map(words, screen_of(profile).lines)).split())


def test_a_row_has_one_share_however_many_are_shown() -> None:
    """Of 6.51, 8.75 and 76.26 % each goes the same way with 2.15, 5.74 and the rest beside them or in the rest."""
    kinds: tuple[RowKind, ...] = ("used", "off", "layout", "communication", "others", "copy", "idle")
    pcts = (5.74, 0.24, 2.15, 6.51, 8.76, 0.34, 76.26)
    bar = Bar("step", 1e9, tuple(BarRow(kind, 1e7 * pct, pct) for kind, pct in zip(kinds, pcts, strict=True)))
    found = FirstScreen(Answer("GOOD", say("busy", pct=0.0, of="step")), bar)
    shown = []
    for most in (MOST_ROWS, 5, 4, 3):
        rows = labelled(found, bar, most)
        shares = shares_of(bar, rows)
        assert sum(int(share.split()[0]) for share in shares) == 100
        shown.append({row.kind: share for (label, row), share in zip(rows, shares, strict=True) if "rest" not in label})
    assert shown[0] == {"used": "6 %", "layout": "2 %", "communication": "6 %", "others": "9 %", "idle": "76 %"}
    assert len(shown[2]) == 3 and all(fewer.items() <= shown[0].items() for fewer in shown)


def cells(row: str) -> list[str]:
    return re.findall(r"<td[^>]*>(.*?)(?=<td|$)", row)


def test_figures_are_those_of_the_csv() -> None:
    profile = gpu_profile()
    kernels = list(profile.require("kernels").rows())
    body = re.search(r'id="kernels">.*?</table>', page(), re.DOTALL)
    assert body is not None
    heads = re.findall(r'<th scope="col"(?: data-c="(\w+)")?>', body[0])
    rows = re.findall(r"<tr>(<td.*?)(?=<tr|</table)", body[0])
    times = [re.findall(r"<td(?: data-v=([^>]*))?>", row)[heads.index("sum_ns")] for row in rows]
    assert sorted(map(float, times)) == sorted(float(row["sum_ns"]) for row in kernels)
    assert "0 ns" not in [cells(row)[heads.index("sum_ns")] for row in rows]


def test_a_long_name_is_whole_in_two_pieces() -> None:
    name = "void cudnn::cnn::wgrad2d_grouped_direct_kernel"
    whole = re.sub("<[^>]+>", "", next(one for one in re.findall(r"<td>.*?(?=<td)", page()) if name in one))
    assert whole.replace("&lt;", "<").replace("&gt;", ">") in {str(r["kernel"]) for r in kernels_of_page()}


def kernels_of_page() -> list[dict[str, Any]]:
    return list(gpu_profile().require("kernels").rows())


def test_rows_beyond_the_limit_are_said() -> None:
    text = "".join(Parsed(rendered("html", RunDocument(gpu_profile(), ReportSpec(top=1, web=True)))).text)
    assert re.search(r"Kernels \(top 1 of \d", text) and "more; --top 0 shows all" in text


def test_what_to_do_is_a_sentence_of_its_own_and_no_line_ends_within_an_option() -> None:
    remarks = Remarks((Remark("note", "no size is known", "run with --max-steps 9 <b>"), Remark("note", "why?", "ask")))
    text = rendered("html", Plain([remarks]))
    assert 'known. <em>What to do: run with <span class="option">--max-steps</span> 9 &lt;b&gt;</em>' in text
    assert "why? <em>What to do: ask</em>" in text


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_name_is_markup(name: str) -> None:
    shape = [(tag, sorted(a)) for tag, a in Parsed(rendered("html", Plain(blocks("name")))).tags]
    made = Parsed(rendered("html", Plain(blocks(name))))
    # a name of another length may be parted in the middle, or name its table otherwise
    assert [(t, sorted(a)) for t, a in made.tags if t != "span"] == [one for one in shape if one[0] != "span"]


def test_100_kb_are_cut_and_quotes_do_not_leave_an_attribute() -> None:
    long = "\"'><img src=x onerror=alert(1)></script><script>" + "k" * 100_000
    profile = replace(gpu_profile(), metadata=replace(gpu_profile().metadata, host=long, command=(long,)))
    text = rendered("html", RunDocument(profile, ReportSpec(web=True)))
    assert len(text) < len(page()) + 20_000
    assert Parsed(text).find("img") == [] and len(Parsed(text).find("script")) == len(Parsed(page()).find("script"))


def test_rings_hold_what_is_unknown_between_its_ends() -> None:
    summary = table("summary", figure("tc_kernel_time_pct", 30.0, low=30.0, high=38.0), figure("gpu_busy_pct", 91.0))
    made = rings_of(gpu_profile().with_tables(summary))
    assert made is not None
    kernels, busy = made.rings
    assert [(part.tone, part.pct) for part in kernels.parts] == [("used", 30.0), ("unknown", 8.0), ("others", 62.0)]
    assert [(part.tone, part.pct) for part in busy.parts] == [("kernels", 91.0), ("idle", 9.0)]


def test_steps_share_what_ran_at_once_and_leave_the_rest_idle() -> None:
    """Step 1: 40 ms of kernels in 20 ms, a quarter of them on Tensor Cores: 5 on, 15 others, 30 of 50 ms idle."""
    common = {"steps": 1, "start_ns": 0, "launches": 4, "unknown_ns": 0, "memory_ns": 0}
    times = {"duration_ns": 50 * MS, "sum_ns": 40 * MS, "union_ns": 20 * MS, "tc_ns": 10 * MS}
    first = {**times, "duration_ns": 900 * MS}
    rows = [{"iteration": n, "in_window": n > 0, **common, **(times if n else first)} for n in range(3)]
    made = steps_of(gpu_profile().with_tables(table("iterations", *rows)))
    assert made is not None and made.height == pytest.approx(50 * MS)
    assert dict(made.bars[1].parts) == pytest.approx({"used": 5 * MS, "others": 15 * MS, "idle": 30 * MS})
    assert [bar.counted for bar in made.bars] == [False, True, True]
    assert made.notes == ("Counted: 1 to 2. Left out: 0 before. Higher bars are cut.",)


def test_a_step_of_unknown_length_is_grey_and_has_no_waiting() -> None:
    common = {"steps": 1, "start_ns": 0, "launches": 4, "unknown_ns": 0, "memory_ns": 0, "in_window": True}
    times = {"sum_ns": 20 * MS, "union_ns": 20 * MS, "tc_ns": 5 * MS}
    rows = [{"iteration": n, **common, **times, "duration_ns": (50 * MS, 40 * MS, None)[n]} for n in range(3)]
    made = steps_of(gpu_profile().with_tables(table("iterations", *rows)))
    assert made is not None and [bar.counted for bar in made.bars] == [True, True, False]
    assert made.bars[2].label == "2: length unknown; on Tensor Cores 5.00 ms, not on Tensor Cores 15.0 ms"
    assert made.notes == ("Counted: 0 to 2. In grey, kernels alone: the length is unknown.",)
    assert dict(made.bars[2].parts)["idle"] == 0 and made.height == pytest.approx(50 * MS)


def test_what_is_not_on_tensor_cores_is_not_called_as_a_row_of_the_bar() -> None:
    rings, steps = rings_of(gpu_profile()), steps_of(gpu_profile())
    assert rings is not None and steps is not None
    said = {part.label for ring in rings.rings for part in ring.parts if part.tone == "others"}
    assert said | {label for tone, label in steps.legend if tone == "others"} == {"not on Tensor Cores"}


def test_layers_lie_below_those_that_hold_them() -> None:
    """a/x 60 ns, half on Tensor Cores; a/y 20, all; b 20, none known: 10 of it."""
    layers = (("a/x", 60, 30, 0), ("a/y", 20, 20, 0), ("b", 20, 0, 10))
    columns = ("layer", "sum_ns", "tc_ns", "unknown_ns")
    made = tree_of(
        gpu_profile().with_tables(table("layers", *(dict(zip(columns, one, strict=True)) for one in layers)))
    )
    assert made is not None and made.depth == 2
    places = {one.label: (one.depth, one.start, one.length, one.share) for one in made.branches}
    assert places == {"a": (0, 0, 80, 0.625), "x": (1, 0, 60, 0.5), "y": (1, 60, 20, 1), "b": (0, 80, 20, 0)}
    assert made.branches[-1].text == "b: 20 ns, 20.0 % of the kernel time, 0.0-50.0 % of it on Tensor Cores"


def test_parts_follow_one_another_and_bars_stay_in_their_chart() -> None:
    parts = tuple(Part("a", pct, "used") for pct in (60.0, 0.1, 39.9))
    assert [(at.start, at.length) for at in placed(parts)] == [(0.0, 60.0), (60.0, 39.9)]
    bars = (Column("0", False, (("used", 30.0),)), Column("1", True, (("used", 5.0), ("idle", 5.0))))
    made = areas(Columns("t", bars, (), 10.0, "10"))
    assert [(area.tone, area.counted) for area in made] == [("used", False), ("used", True), ("idle", True)]
    assert made[0].path == f"M0,0.0h8v{HEIGHT}.0h-8z" and made[2].path == f"M10,0.0h8v{HEIGHT / 2}h-8z"


def test_other_documents_have_a_page_too() -> None:
    made = Parsed(rendered("html", Plain(blocks("name"))))
    assert made.find("table") and made.find("details")


def test_the_t4_sample_fits_400_kb() -> None:
    profile = make_report(shared("samples/xplane/tf24_t4_alexnet_fp32.xplane.pb"), Options(timeline=True))
    document: Document = RunDocument(profile, ReportSpec(web=True))
    assert len(rendered("html", document).encode()) < 400_000


def test_a_timeline_brings_its_data_and_the_script_that_draws_it() -> None:
    made = Parsed(rendered("html", RunDocument(make_report(TWO_GPUS, Options(timeline=True)), ReportSpec(web=True))))
    assert [attributes.get("type") for attributes in made.find("script")] == [
        "application/json",
        "text/plain",
        None,
        None,
    ]
    assert made.inside["script"][-1] == _text("timeline.js")
    assert "What ran when in step 5 to step 7" in "".join(made.text)


def test_a_page_with_curves_alone_brings_the_library_that_draws_them() -> None:
    """It is the one that was published, whole, of the version that its package names."""
    folder = ROOT / "tcprobe/report/html/uplot"
    sums = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text("utf-8").splitlines())
    assert {one.name for one in folder.iterdir()} == {*sums, "SHA256SUMS"}
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == sums[name] for name in sums)
    package = json.loads((folder / "package.json").read_text("utf-8"))
    library = (folder / "uPlot.iife.min.js").read_text("utf-8")
    assert (package["version"], package["license"]) == ("1.6.32", "MIT") and f"(v{package['version']})" in library
    logged = [{"step": step, "name": "loss", "value": 1.0 / (1 + step)} for step in range(3)]
    with_curves = rendered(
        "html", RunDocument(gpu_profile().with_tables(table("metrics", *logged)), ReportSpec(web=True))
    )
    assert library in Parsed(with_curves).inside["script"]
    assert library not in rendered(
        "html", RunDocument(gpu_profile().with_tables(table("metrics")), ReportSpec(web=True))
    )


def test_a_notebook_gets_the_first_screen_with_its_pictures_and_tables_folded_and_no_script() -> None:
    logged = [{"step": step, "name": "loss", "value": 1.0 / (1 + step)} for step in range(3)]
    document = RunDocument(gpu_profile().with_tables(table("metrics", *logged)), ReportSpec(web=True))
    out = io.StringIO()
    Renderer("html", ()).render(document, RenderSpec(fragment=True), out)
    made = Parsed(out.getvalue())
    first = first_of(document.profile)
    assert not made.open and not made.find("script") and not [t for t, _ in made.tags if t in ("html", "head", "body")]
    assert first is None or "".join(first.verdict) in "".join(made.text)
    assert made.find("details") and not [a for a in made.find("details")[1:] if "open" in a]
    assert [a["d"] for a in made.find("path") if a.get("class") == "s0" and str(a["d"]).startswith("M0,0")]
