"""Time pairs of products through one framework: ``python timed_pairs.py orders.json``.

Runs in the framework's own interpreter: the framework, the standard library and Python 3.8 are enough. What it times
with is tcprobe's own measuring program, imported by path.

Orders (JSON): `measure` (that program's folder), `framework`, `device`, `tf32`, `pairs` (each with `row`, the columns
known before; `from` and `to`, rows of products; and `sets`), `rows` (a CSV to append whole lines to), `columns`,
`rounds`, `sample_ms`, `warm_ms`, `warm_s` (before the first pair), `seconds` (no pair starts that would end later) and
`out` (where to write the answer).
Answer (JSON): `about`, or `unusable` with the reason; `timed`, `failed` and `left` pairs; and `broken`, 1 where the
device failed, so that nothing more could be timed.
"""

from __future__ import annotations

import csv
import gc
import importlib
import importlib.util
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_REASON = 200
ONE_BYTE = ("int8", "float8_e4m3fn")


class OneByte:
    """A session whose products have 1-byte operands, A[m, k] B[n, k]^T, unscaled; the rest is the session's own."""

    def __init__(self, session: Any, device: str) -> None:
        self._own, self._place = session, device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    @staticmethod
    def shapes(case: dict[str, Any]) -> list[tuple[int, int]]:
        m, n, k = (int(case[name]) for name in "mnk")
        return [(m, k), (n, k)]


class TorchOneByte(OneByte):
    """PyTorch's products of int8 and float8, which are not those of `torch.matmul`."""

    def operands(self, case: dict[str, Any]) -> Any:
        torch = importlib.import_module("torch")
        device = "cpu" if self._place == "cpu" else "cuda:" + self._place.partition(":")[2]
        if case["dtype"] == "int8":
            return tuple(torch.randint(-9, 10, s, dtype=torch.int8, device=device) for s in self.shapes(case))
        dtype = getattr(torch, case["dtype"])
        return tuple(torch.randn(*s, device=device).mul_(0.5).to(dtype) for s in self.shapes(case))

    def function(self, case: dict[str, Any]) -> Callable[..., Any]:
        torch = importlib.import_module("torch")
        if case["dtype"] == "int8":
            return lambda a, b: torch._int_mm(a, b.t())
        one = torch.ones((), device="cpu" if self._place == "cpu" else "cuda:" + self._place.partition(":")[2])
        return lambda a, b: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


class JaxOneByte(OneByte):
    """JAX's products of int8 and float8, with results of 32 and 16 bits."""

    def operands(self, case: dict[str, Any]) -> Any:
        jax = importlib.import_module("jax")
        keys = jax.random.split(jax.random.PRNGKey(time.monotonic_ns() % 2**31), 2)
        both = list(zip(keys, self.shapes(case)))  # noqa: B905 - Python 3.8
        if case["dtype"] == "int8":
            return tuple(jax.random.randint(key, shape, -9, 10).astype("int8") for key, shape in both)
        return tuple((jax.random.normal(key, shape) * 0.5).astype(case["dtype"]) for key, shape in both)

    def function(self, case: dict[str, Any]) -> Callable[..., Any]:
        jax = importlib.import_module("jax")
        result = "int32" if case["dtype"] == "int8" else "bfloat16"
        along = (((1,), (1,)), ((), ()))
        return lambda a, b: jax.lax.dot_general(a, b, along, preferred_element_type=result)


NARROW = {"torch": TorchOneByte, "jax": JaxOneByte}


def main() -> None:
    """Read the orders, carry them out, write the answer."""
    started = time.monotonic()
    orders = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.path.pop(0)  # this folder: its names are not the framework's to import
    package = load(Path(orders["measure"]))
    base = importlib.import_module(package.__name__ + ".base")
    answer: dict[str, Any] = {}
    try:
        backend = next(b for b in package.BACKENDS if orders["framework"] == b.NAME)
        session = backend.open(orders["device"], orders["tf32"])
        answer["about"] = session.about()
        timing = importlib.import_module(package.__name__ + ".timing")
        answer.update(timed(session, orders, started + orders["seconds"], timing))
    except (base.Unusable, ImportError) as error:
        answer["unusable"] = line(error)
    part = Path(orders["out"] + ".part")
    part.write_text(json.dumps(answer), encoding="utf-8")
    part.replace(orders["out"])


def load(folder: Path) -> Any:
    """Import a package from its folder, under a name that no framework has."""
    name = "tcprobe_measure"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package


def timed(session: Any, orders: dict[str, Any], end: float, timing: Any) -> dict[str, int]:
    """Time pair after pair until all are done or the time is up."""
    count = {"timed": 0, "failed": 0, "left": len(orders["pairs"]), "broken": 0}
    took: list[float] = []
    warm_s, parent = orders["warm_s"], os.getppid()
    handle = os.open(orders["rows"], os.O_WRONLY | os.O_APPEND)
    try:
        for order in orders["pairs"]:
            begun = time.monotonic()
            # the next one must end in time even if it is as slow as the slowest so far: nobody waits for an orphan
            if begun + max(took[-20:] or [0.0]) > end or os.getppid() != parent:
                break
            row = pair(session, order, orders, timing, warm_s)
            count["timed" if row["status"] == "ran" else "failed"] += 1
            count["left"] -= 1
            # the line at once: a run that is killed then leaves only whole lines
            os.write(handle, csv_line([row.get(name, "") for name in orders["columns"]]))
            if row["status"] != "ran" and not timing.works(session):
                count["broken"] = 1  # the pairs that are left would fail for no fault of theirs
                break
            gc.collect()  # reference cycles that a pair leaves behind hold device memory
            took.append(time.monotonic() - begun - warm_s)
            warm_s = 0.0
    finally:
        os.close(handle)
    return count


def pair(session: Any, order: dict[str, Any], orders: dict[str, Any], timing: Any, warm_s: float) -> dict[str, Any]:
    """Return the row of a pair: both sides' samples taken in turns, so that a drift of the clock is in both."""
    row = dict(order["row"])
    own = NARROW[orders["framework"]](session, orders["device"]) if row["dtype"] in ONE_BYTE else session
    lengths = orders["sample_ms"] * 1_000_000, orders["warm_ms"] * 1_000_000
    try:
        before, after = (timing.sampler(own, order[side], order["sets"], *lengths) for side in ("from", "to"))
        end = time.monotonic() + warm_s  # an idle GPU takes much of a second to raise its clocks
        while time.monotonic() < end:
            before()
        rounds = [(before(), after()) for _ in range(orders["rounds"])]
    except (timing.NotFinite, MemoryError) as error:
        return dict(row, status="a result is not finite" if isinstance(error, timing.NotFinite) else "out of memory")
    except (*session.failures, AttributeError) as error:  # an older framework lacks a dtype or a product
        return dict(row, status=line(error))
    return dict(row, status="ran", rounds=len(rounds), **figures(rounds, timing.median))


def figures(rounds: list[tuple[float, float]], median: Callable[[list[float]], float]) -> dict[str, str]:
    """Return the medians of both sides, their ratio, and the largest deviation of a round's ratio from their median."""
    before, after = (median(list(times)) for times in zip(*rounds))  # noqa: B905 - Python 3.8
    ratios = [second / first for first, second in rounds]
    middle = median(ratios)
    spread = max(abs(ratio / middle - 1) for ratio in ratios)
    return {
        "from_ns": f"{before:.1f}", "to_ns": f"{after:.1f}", "ratio": f"{after / before:.4f}",
        "spread_pct": f"{100 * spread:.2f}",
    }  # fmt: skip


def csv_line(values: list[Any]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode("utf-8")


def line(error: BaseException) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:LONGEST_REASON]


if __name__ == "__main__":
    main()
