"""Time and record training steps as ordered, and write the answer.

Orders: `framework`, `model`, `precision`, `recorder`, `dry`, `warm_up`, `steps`, `short` (lengths of further, shorter
traces), `folder` (for the answer and traces), `root` (of this project), `ranges` (the module that marks what a
profiler around this process records). Answer (`answer.json`): figures, or `unusable` with the reason. Traces lie in
`trace-STEPS/`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import SIZES, Unusable

if TYPE_CHECKING:
    from .base import Session

ANSWER = "answer.json"


def carry_out(path: Path) -> None:
    """Carry out the orders in a file."""
    orders = json.loads(path.read_text(encoding="utf-8"))
    folder = Path(orders["folder"])
    try:
        _record(orders, folder)
    except Unusable as error:
        _write(folder, {"unusable": str(error)})


def _record(orders: dict[str, Any], folder: Path) -> None:
    sizes = SIZES[orders["dry"]][orders["model"]]
    around = _ranges(orders["ranges"]) if orders["recorder"] in ("nsys", "ncu") else None
    module = importlib.import_module(f"{__package__}.with_{orders['framework']}")
    if not orders["dry"] and not module.sees_gpu():
        raise Unusable(f"{orders['framework']} sees no GPU")
    session: Session = module.open(orders["model"], orders["precision"], sizes, Path(orders["root"]))
    for number in range(orders["warm_up"]):
        session.step(number)
    session.sync()
    answer: dict[str, Any] = {"precision": session.precision, "on_gpu": session.on_gpu, "notes": session.notes}
    answer["sizes"] = {name: size for name, size in sizes._asdict().items() if size}
    if around is not None:
        _write(folder, answer)  # for where the profiler is cut off
        with around.case("step"), around.measure():
            answer.update(_timed(session, orders["steps"]))
    elif orders["recorder"] == "plain":
        answer.update(_timed(session, orders["steps"]))
    else:
        answer.update({"plain_" + name: value for name, value in _timed(session, orders["steps"]).items()})
        # the first session of a process is the one that loses no kernels: CUPTI may drop the first ones of later ones
        answer.update(_traced(session, orders["steps"], folder))
    answer["peak_memory_bytes"] = session.peak_memory()
    _write(folder, answer)
    if around is None and orders["recorder"] != "plain":
        for steps in orders["short"]:
            _traced(session, steps, folder)


def _traced(session: Session, steps: int, folder: Path) -> dict[str, float]:
    """Time steps under the framework's profiler."""
    place = folder / f"trace-{steps}"
    place.mkdir()
    with session.recorded(place):
        return _timed(session, steps)


def _ranges(path: str) -> Any:
    """Return the ranges of this process, which are opened before the framework is imported."""
    spec = importlib.util.spec_from_file_location("ranges", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module.open_ranges()


def _timed(session: Session, steps: int) -> dict[str, float]:
    """Return the median and the mean length of steps.

    The host begins a step and waits for the one before it, so it always has one in hand: the GPU is never without work
    for that, and the host's clock goes at the GPU's pace.
    """
    session.sync()
    moments = [time.perf_counter_ns()]
    before = None
    for number in range(steps):
        begun = session.step(number)
        if number:
            session.wait(before)
            moments.append(time.perf_counter_ns())
        before = begun
    session.sync()
    moments.append(time.perf_counter_ns())
    lengths = [later - earlier for earlier, later in zip(moments, moments[1:])]  # noqa: B905, RUF007 - Python 3.8
    return {"step_ns": statistics.median(lengths), "mean_step_ns": (moments[-1] - moments[0]) / steps}


def _write(folder: Path, answer: dict[str, Any]) -> None:
    answer["python"] = ".".join(map(str, sys.version_info[:3]))
    (folder / ANSWER).write_text(json.dumps(answer) + "\n", encoding="utf-8")
