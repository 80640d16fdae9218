"""Measure the page of a report: how long it takes to write, its size, its first paint, and the memory of its tab.

    python bench/pages.py [--kernels 1000 50000 1000000] [--runs 3] [--keep FOLDER] [--memray PYTHON]
        [--profile FILE] [--beside ADDRESS ...]

Makes recordings of Nsight Systems in which each step runs 100 kernels of 40 names in 25 ranges, and opens their pages
in the Chromium that is on PATH, by Playwright (pip install 'tcprobe[browser]'). Paint is from the start of the
navigation until the first contents stand there, ready until scripts have run, the least of all runs; memory is what
the tab's process has to itself (PSS), the median. Beside them memray's flame graph page of the same reports, of an
interpreter that has memray, made with --no-web, as the other kind loads its script from elsewhere; and any other page,
such as the trace viewer of XProf, which a server shows of an XSpace (xprof --logdir FOLDER).
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.cost import Cost, best, measure
from bench.nsys import replicate
from tests.readers.nsys.made import Made

STEPS, KERNELS = 10, 100  # of a copy: steps, and kernels in each
NAMES = ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "vectorized_elementwise_kernel")
REPORT = ("-m", "tcprobe", "report", "--force")


PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
READY = "performance.getEntriesByType('navigation')[0].loadEventEnd"


class Shown(NamedTuple):
    """What a browser needs for a page."""

    paint_ms: float
    ready_ms: float
    tab_bytes: int


def make(kernels: int, folder: Path) -> Path:
    """Return a recording of so many kernels, a multiple of 1,000, in steps of 100."""
    file = folder / f"made-{kernels}.sqlite"
    if file.exists():
        return file
    made = Made()
    made.gpu(0, "NVIDIA H100 80GB HBM3", smCount=132, computeMajor=9, computeMinor=0, cuDevice=0)
    for step in range(STEPS):
        begin = 4_000_000 * step
        made.range("train_step", begin, begin + 3_900_000)
        for at in range(KERNELS):
            start = begin + 35_000 * at
            if at % 4 == 0:
                made.range(f"aten::layer_{at // 4}", start, start + 130_000)
            name = f"{NAMES[at % 2]}_{at % 40}"
            made.launch(name, start + 5_000, start + 20_000, start + 20_000 + 200 * (at + 20), gridX=132, blockX=128)
    one = made.write(folder / "made.sqlite")
    replicate(one, kernels // (STEPS * KERNELS), file)
    one.unlink()
    return file


def shown(browser: Any, address: str, runs: int) -> Shown:
    """Open a page several times, each in a tab of its own."""
    paints, times, memory = [], [], []
    for _ in range(runs):
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.goto(address, wait_until="load", timeout=120_000)
        while (paint := page.evaluate(PAINT)) is None:
            page.wait_for_timeout(20)
        paints.append(paint)
        times.append(page.evaluate(READY))
        memory.append(_tab_bytes(browser))
        page.context.close()
    return Shown(min(paints), min(times), int(statistics.median(memory)))


def _tab_bytes(browser: Any) -> int:
    """Return the memory of the largest process that draws pages: proportional set size."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = [_pss(one["id"]) for one in processes if one["type"] == "renderer"]
    return max(sizes, default=0)


def _pss(process: int) -> int:
    text = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def told(label: str, cost: Cost | None, page: Path | None, seen: Shown) -> None:
    """Print a row."""
    wrote = "" if cost is None else f"user {cost.user_s:6.2f} s  wall {cost.wall_s:6.2f} s  "
    size = "" if page is None else f"page {page.stat().st_size / 1e6:6.2f} MB  "
    browser = f"paint {seen.paint_ms:6.0f} ms  ready {seen.ready_ms:6.0f} ms  tab {seen.tab_bytes / 1e6:5.0f} MB"
    print(f"  {label:26} {wrote}{size}{browser}", flush=True)


def compare(browser: Any, file: Path, options: argparse.Namespace, folder: Path) -> None:
    """Measure the page of a recording, and those beside it."""
    print(f"{file.stem}: {file.stat().st_size / 1e6:.0f} MB", flush=True)
    page = folder / f"{file.stem}.html"
    report = [*REPORT, *(() if options.profile else ("--step-range", "train_step")), str(file)]
    cost = best([sys.executable, *report, "-o", str(page)], options.runs)
    told("tcprobe report -o html", cost, page, shown(browser, page.as_uri(), options.runs))
    data = best([sys.executable, *report, "-o", str(folder / "report.json")], options.runs)
    print(f"  {'tcprobe report -o json':26} user {data.user_s:6.2f} s  wall {data.wall_s:6.2f} s", flush=True)
    for address in options.beside:
        told(address.partition("?")[0][-26:], None, None, shown(browser, address, options.runs))
    if options.memray:
        records, flames = folder / f"{file.stem}.bin", folder / f"{file.stem}-memray.html"
        run = [options.memray, "-m", "memray", "run", "-q", "-f", "-o", str(records)]
        measure([*run, *report, "-o", str(folder / "of-memray.html")])
        drawn = best(
            [options.memray, "-m", "memray", "flamegraph", "--no-web", "-f", "-o", str(flames), str(records)], 1
        )
        told("memray flamegraph --no-web", drawn, flames, shown(browser, flames.as_uri(), options.runs))


def main() -> int:
    """Make the recordings, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, nargs="+", default=[1_000, 50_000, 1_000_000], help="multiples of 1,000")
    parser.add_argument("--runs", type=int, default=3, help="runs of each command and page")
    parser.add_argument("--keep", type=Path, help="folder for recordings and pages, which stay there")
    parser.add_argument("--memray", metavar="PYTHON", help="an interpreter with memray and what tcprobe needs")
    parser.add_argument("--beside", nargs="+", default=(), metavar="ADDRESS", help="other pages to open: of a server")
    parser.add_argument("--profile", type=Path, help="any profile, in place of the made ones")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    if (chromium := shutil.which("chromium")) is None:
        raise SystemExit("chromium is not on PATH")
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    kept = nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(prefix="tcprobe-bench-")
    with kept as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        print(f"Chromium {browser.version}")
        made = (make(kernels, Path(folder)) for kernels in options.kernels)
        for file in made if options.profile is None else (options.profile,):
            compare(browser, file, options, Path(folder))
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
