"""Carry out the orders: describe the device, or measure cases and write their rows one by one.

Orders (JSON): `framework`, `device`, `tf32`, `out` (where to write the answer). With `cases` also `rows` (a CSV to
append whole lines to), `columns`, `source`, `seconds` (no case starts that would end later), `sample_ms`, `warm_ms`
and `warm_s` (before the first case). Cases are measured in order.
Answer (JSON): `about`, or `unusable` with the reason; `measured`; `left`, for lack of time; `broken`, left because the
device failed; and `failed`: reasons why cases failed, and how many did.
"""

from __future__ import annotations

import gc
import json
import os
import time
from pathlib import Path
from typing import Any

from . import BACKENDS
from .base import Session, Unusable
from .timing import NotFinite, time_case, works

LONGEST_REASON = 200  # characters of a reason


def carry_out(path: str) -> None:
    """Read the orders, carry them out, write the answer."""
    started = time.monotonic()
    orders = json.loads(Path(path).read_text(encoding="utf-8"))
    answer: dict[str, Any] = {}
    try:
        backend = next(b for b in BACKENDS if orders["framework"] == b.NAME)
        session = backend.open(orders["device"], orders["tf32"])
        answer["about"] = session.about()
        if orders.get("cases"):
            answer.update(_measured(session, orders, started + orders["seconds"]))
    except Unusable as error:
        answer["unusable"] = str(error)
    except ImportError as error:
        answer["unusable"] = f"{orders['framework']} cannot be imported: {_line(error)}"
    partial = Path(orders["out"] + ".part")
    partial.write_text(json.dumps(answer), encoding="utf-8")
    partial.replace(orders["out"])


def _measured(session: Session, orders: dict[str, Any], end: float) -> dict[str, Any]:
    failed: dict[str, int] = {}
    took: list[float] = []
    measured, parent = 0, os.getppid()
    _warm_up(session, orders)
    handle = os.open(orders["rows"], os.O_WRONLY | os.O_APPEND)
    try:
        for number, case in enumerate(orders["cases"]):
            begun = time.monotonic()
            # the next case must end in time even if it is as slow as the slowest so far: nobody waits for an orphan
            if begun + max(took[-20:] or [0.0]) > end or os.getppid() != parent:
                return {"measured": measured, "failed": failed, "left": len(orders["cases"]) - number}
            reason = _case(session, case, orders, handle)
            measured += reason == ""
            if reason:
                failed[reason] = failed.get(reason, 0) + 1
                if not works(session):
                    rest = len(orders["cases"]) - number - 1
                    return {"measured": measured, "failed": failed, "left": 0, "broken": rest}
            gc.collect()  # reference cycles that a case leaves behind hold device memory
            took.append(time.monotonic() - begun)
    finally:
        os.close(handle)
    return {"measured": measured, "failed": failed, "left": 0}


def _warm_up(session: Session, orders: dict[str, Any]) -> None:
    """Keep the device busy until its clocks have risen; these measurements are thrown away."""
    end = time.monotonic() + orders.get("warm_s", 0.0)
    while time.monotonic() < end:
        case = orders["cases"][0]
        try:
            time_case(session, case["row"], case["sets"])
        except (NotFinite, MemoryError):
            return
        except session.failures:
            return


def _case(session: Session, case: dict[str, Any], orders: dict[str, Any], handle: int) -> str:
    """Measure a case and write its row; return why it failed, empty if it did not."""
    row = dict(case["row"])
    try:
        ns = time_case(session, row, case["sets"], orders["sample_ms"] * 1_000_000, orders["warm_ms"] * 1_000_000)
    except NotFinite:
        return "a result is not finite"
    except MemoryError:
        return "out of memory"
    except session.failures as error:
        return f"{row['dtype']}: {_line(error)}"
    row.update(time_ns=f"{ns:.1f}", source=orders["source"])
    # write the line at once: a run that is killed then leaves only whole lines
    os.write(handle, (_csv([row.get(name, "") for name in orders["columns"]]) + "\n").encode("utf-8"))
    return ""


def _csv(values: list[Any]) -> str:
    texts = [str(value) for value in values]
    return ",".join('"' + t.replace('"', '""') + '"' if set(t) & set(',"\r\n') else t for t in texts)


def _line(error: BaseException) -> str:
    text = " ".join((str(error) or type(error).__name__).split())
    return text[:LONGEST_REASON]
