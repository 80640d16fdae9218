"""Write what docs/classification.md and docs/cost-model.md say of recorded GPUs: `python -m docs.make_gpu_results`.

It follows from the folders in bench/gpu/results, and says that there is none where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from bench.gpu.summary.markdown import table
from bench.gpu.summary.pack import RESULTS
from bench.gpu.summary.whole import summarise

DOCS = Path(__file__).parent
NONE = "None has been recorded yet: [contribute a GPU](contribute-a-gpu.md)."
MARK = "gpu results"


@cache
def _folders() -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple((place.name, summarise(place)) for place in sorted(RESULTS.iterdir()) if place.is_dir())


def classification() -> Iterator[str]:
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
            for name, data in _folders()
            for source in data["classification"]["sources"]
        ],
    )
    yield from table(
        ("recorded", "op", "dtype", "aligned", "#cases on Tensor Cores", "#without", "#unproved"),
        [
            (name, a["op"], a["dtype"], "yes" if a["aligned"] else "no", a["yes"], a["no"], a["unknown"])
            for name, data in _folders()
            for a in data["classification"]["alignment"]
            if a["aligned"] is not None
        ],
    )


def costs() -> Iterator[str]:
    """Yield the errors of predictions by class of product."""
    yield ""


PAGES: dict[str, Callable[[], Iterator[str]]] = {"classification.md": classification, "cost-model.md": costs}


def page(name: str, text: str) -> str:
    """Return a page with its part on recorded GPUs made anew.

    Raises:
        ValueError: the marks around it are missing.
    """
    begin, end = f"<!-- {MARK} -->\n", f"<!-- /{MARK} -->"
    found = re.search(f"(?s)(?<={begin}).*(?={end})", text)
    if found is None:
        raise ValueError(f"{name}: no {begin.strip()} ... {end}")
    made = "\n".join(PAGES[name]()).strip() if _folders() else NONE
    return text[: found.start()] + made + "\n" + text[found.end() :]


if __name__ == "__main__":
    for name in PAGES:
        path = DOCS / name
        path.write_text(page(name, path.read_text(encoding="utf-8")), encoding="utf-8")
