"""Write what pages say of recorded GPUs: `python -m docs.make_gpu_results`.

It follows from the folders in bench/gpu/results, and says that there is none where there is none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from bench.gpu.summary.costs import BASES, by_kind, inside
from bench.gpu.summary.kernels import alignment_table
from bench.gpu.summary.markdown import table
from bench.gpu.summary.pack import RESULTS
from bench.gpu.summary.whole import summarise

ROOT = Path(__file__).parents[1]
NONE = "None has been recorded yet."
MARK = "gpu results"


Days = tuple[tuple[str, dict[str, Any]], ...]
"""Names of folders, and what they say."""


@cache
def days(results: Path) -> Days:
    """Return what each folder of results says."""
    return tuple((place.name, summarise(place)) for place in sorted(results.iterdir()) if place.is_dir())


def classification(found: Days) -> Iterator[str]:
    """Yield how names did against counters, and which products ran on Tensor Cores."""
    head = ("recorded", "through", "#launches", "#names", "#contradicted", "#unknown", "#unproved")
    yield from table(
        head,
        [
            (
                name,
                source["framework"],
                source["launches"],
                source["kernels"],
                *(source["outcomes"][o] for o in ("contradiction", "unknown", "unproved")),
            )
            for name, data in found
            for source in data["classification"]["sources"]
        ],
    )
    yield from alignment_table((name, data["classification"]["alignment"]) for name, data in found)


def costs(found: Days) -> Iterator[str]:
    """Yield the errors of predictions by class of product, and how many resize pairs lie in their predicted range."""
    told = [(name, data["costs"]) for name, data in found]
    head = ("recorded", "class", "dtype", "#products", "#shipped", "#in the range %", "#calibrated", "#in the range %")
    yield from table(head, [row for name, of in told for one in of["products"] for row in _classes(name, one)])
    yield from table(
        ("recorded", "resize pairs", *(f"#in the {base} range" for base in BASES)),
        [
            (name, one["unit"], *("{} of {}".format(*inside(one["rows"], base)) for base in BASES))
            for name, of in told
            for one in of["pairs"]
        ],
    )


def _classes(name: str, one: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each class of product and dtype of one framework."""
    own = by_kind(one["calibrated"])
    for key, row in by_kind(one["shipped"]).items():
        figures = [f"{of[f]:.1f}" if of else "" for of in (row, own.get(key)) for f in ("error_pct", "in_range_pct")]
        yield (f"{name} {one['unit']}", *key, str(row["products"]), *figures)


def listed(found: Days) -> Iterator[str]:
    """Yield a line for each folder: the GPU, and how many units of each part it has."""
    for name, data in found:
        units = Counter(unit["part"] for unit in data["recorded"]["units"] if unit["status"] == "done")
        gpu = data["recorded"]["provenance"]["nvidia_smi"]["name"]
        yield f"- [{name}]({name}/summary.md): {gpu}; " + ", ".join(f"{n} of {part}" for part, n in units.items())


PAGES: dict[str, Callable[[Days], Iterator[str]]] = {
    "docs/classification.md": classification,
    "docs/cost-model.md": costs,
    "bench/gpu/results/README.md": listed,
}
"""What is made for each page."""


def page(name: str, text: str, results: Path = RESULTS) -> str:
    """Return a page with its part on recorded GPUs made anew.

    Raises:
        ValueError: the marks around it are missing.
    """
    begin, end = f"<!-- {MARK} -->\n", f"<!-- /{MARK} -->"
    part = re.search(f"(?s)(?<={begin}).*(?={end})", text)
    if part is None:
        raise ValueError(f"{name}: no {begin.strip()} ... {end}")
    found = days(results)
    made = "\n".join(PAGES[name](found)).strip() if found else NONE
    return text[: part.start()] + made + "\n" + text[part.end() :]


if __name__ == "__main__":
    for name in PAGES:
        path = ROOT / name
        path.write_text(page(name, path.read_text(encoding="utf-8")), encoding="utf-8")
