"""Runs cases one after another inside ranges; what became of each is on the disk before the next begins.

Standard library only, Python 3.8 syntax: it runs in a framework's interpreter.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Callable, Dict

LEAST_S = {"cpu": 1.0, "cuda": 6.0}  # with less time left no case is begun: it would be cut off
PATH = re.compile(r"(?:/[^\s/:,'\"]+)+/([^\s/:,'\"]+)")
BROKEN = re.compile(
    r"illegal|misaligned|launch failure|device-side assert|unspecified|CUDA_ERROR_(?!NOT_SUPPORTED)", re.I
)
WARM_UPS = 2

Case = Dict[str, Any]


class Lacking(Exception):
    """The framework has no such op, dtype or way."""


def orders() -> Dict[str, Any]:
    """Return what the program is to do: `cases`, `results`, `counters` (a folder), `device`."""
    with open(sys.argv[1], encoding="utf-8") as file:
        told: Dict[str, Any] = json.load(file)
    return told


def open_ranges(told: Dict[str, Any]) -> Any:
    """Return the ranges of this process; its modules are seen only while they are imported."""
    sys.path.insert(0, told["counters"])
    try:
        from ranges import open_ranges
    finally:
        sys.path.pop(0)
    return open_ranges()


def run(told: Dict[str, Any], ranges: Any, prepare: Callable[[Case], Callable[[], None]]) -> None:
    """Run all cases.

    Args:
        told: the orders.
        ranges: of `ranges.py`.
        prepare: makes a case's tensors, and returns what runs the op once and waits until it is done.
    """
    with open(told["results"], "a", encoding="utf-8") as file:

        def tell(case: str, status: str) -> None:
            file.write(json.dumps({"case": case, "status": status}) + "\n")
            file.flush()
            os.fsync(file.fileno())

        for case in told["cases"]:
            if ranges.left() < LEAST_S[told["device"]]:
                return
            tell(case["case"], "began")
            status = _measure(case, ranges, prepare)
            tell(case["case"], status)
            if BROKEN.search(status):
                os._exit(70)  # the context is gone, and every later case with it: another process goes on


def _measure(case: Case, ranges: Any, prepare: Callable[[Case], Callable[[], None]]) -> str:
    try:
        once = prepare(case)
        with ranges.case(case["case"]):
            for _ in range(WARM_UPS):
                once()
            with ranges.measure():
                once()
    except Lacking as error:
        return str(error)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = "%s: %s" % (type(error).__name__, lines[0] if lines else "")
        return PATH.sub(r"\1", told)[:200]
    return "ran"
