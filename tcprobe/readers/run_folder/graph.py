"""Read what the probe wrote into a run folder: graph.json, steps.csv and metrics.csv as tables."""

from __future__ import annotations

import csv
import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tcprobe.errors import InputError, MissingInput
from tcprobe.foreign import read
from tcprobe.jsonfile import MOST_BYTES, parse, read_object
from tcprobe.readers.run_folder.phases import read_phases
from tcprobe.schema.columns import Table
from tcprobe.schema.op import PASSES, Part
from tcprobe.schema.profile import Note
from tcprobe.schema.tables import EXECUTES_BASES, GRAPH_OPS, METRICS, SCOPES, STEPS, USES_TC

MOST_LOG_BYTES: Final = 1 << 30  # a month of steps of 100 ms; one step takes 30 bytes
KINDS: Final = STEPS.column("kind").values
TableAndNotes = tuple[Table | None, tuple[Note, ...]]
_IN_LOOP = re.compile(r"(?:^|/)(?:while|cond|case)(?:_\d+)?/")


def read_graph(path: Path) -> TableAndNotes:
    """Return `GRAPH_OPS` of the training functions in graph.json, and what is wrong with the file.

    Ops of functions that do not train are left out; those that no counted step calls stay, with 0 calls. An op that
    is damaged is skipped and counted. The other names under which an op may appear in a profile go into
    ``attributes`` as ``aliases``.
    """
    try:
        data = parse(read(path, MOST_BYTES, _home(path)).decode())
    except MissingInput:
        return None, ()
    except (InputError, ValueError) as error:
        return None, (damaged(path, _reason(error), "no layers, shapes and sizes from the graph"),)
    functions = data.get("functions") if isinstance(data, dict) else None
    if not isinstance(functions, list):
        return None, (damaged(path, "it holds no list of functions", "no layers, shapes and sizes from the graph"),)
    parts = _parts(path.with_name("probe.json"))
    trained = [f for f in functions if isinstance(f, dict) and (f.get("training") or _part(f) in parts)]
    ops = [(f, op) for f in trained for op in _list(f.get("ops"))]
    good = [(f, op) for f, op in ops if isinstance(op, dict) and _text(op.get("op")) and _text(op.get("op_type"))]
    notes = (damaged(path, f"{len(ops) - len(good)} of {len(ops)} ops lack a name or type", "they are left out"),)
    whole = _whole_step(path.with_name("probe.json"), trained)
    return (_graph_table(good, whole) if good else None), notes if len(good) < len(ops) else ()


def read_scopes(path: Path) -> TableAndNotes:
    """Return `SCOPES` of graph.json; `read_graph` says what is wrong with the file."""
    found = read_object(path, _home(path)).get("scopes")
    rows = found.items() if isinstance(found, dict) else ()
    good = [{"scope": scope, "layer": layer} for scope, layer in rows if scope and _text(layer)]
    return (Table.from_rows(SCOPES, good) if good else None), ()


def _graph_table(ops: list[tuple[dict[str, Any], dict[str, Any]]], whole: dict[str, Any] | None) -> Table:
    def each(make: Callable[[dict[str, Any]], Any]) -> list[Any]:
        return [make(op) for _, op in ops]

    plain = ("op", "op_type", "executed_op", "executed_type", "layer", "layer_class", "source", "called_from")
    columns = {name: [_text(op.get(name)) for _, op in ops] for name in plain}
    return Table(
        GRAPH_OPS,
        {
            **columns,
            "function": [_text(f.get("name")) for f, _ in ops],
            "executes": each(lambda op: op.get("executes") if op.get("executes") in USES_TC else "unknown"),
            "executes_basis": [_basis(f, op) for f, op in ops],
            "pass": each(lambda op: op.get("pass") if op.get("pass") in PASSES else None),
            "input_shapes": each(lambda op: _json_list(op.get("input_shapes"))),
            "input_dtypes": each(lambda op: _json_list(op.get("input_dtypes"))),
            "output_shape": each(lambda op: _json_list(_first(op.get("output_shapes")))),
            "output_dtype": each(lambda op: _text(_first(op.get("output_dtypes")))),
            "attributes": each(_attributes),
            "calls_per_step": [_calls(f, op, f is whole) for f, op in ops],
            "part": [_part(f) for f, _ in ops],
            "calls_in_phases": [_json_list(f.get("calls_in_phases")) for f, _ in ops],
            "repeats": each(lambda op: _number(op.get("repeats"))),
            "at_least": each(lambda op: op.get("at_least") is True),
        },
    )


def _basis(function: dict[str, Any], op: dict[str, Any]) -> str | None:
    """Return what says whether the op executes; where XLA compiles all that is traced, only liveness says no."""
    said = function.get("executed_basis")
    if said == "traced" and op.get("executes") == "no":
        return "liveness"
    return said if said in EXECUTES_BASES else None


def _parts(path: Path) -> frozenset[int | None]:
    """Return the numbers of the parts of training that probe.json lists, whatever their functions are said to do."""
    phases = read_phases(read_object(path, _home(path)))
    return frozenset(p.key for parts in phases.values("parts") for p in Part.all_of(parts)) if phases else frozenset()


def _whole_step(path: Path, training: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the function that is a step by itself, by probe.json; None where several train, or a step is more.

    Probes that recorded no loops (`repeats`) left its calls open at times.
    """
    steps = read_object(path, _home(path)).get("steps")
    if not isinstance(steps, dict) or steps.get("period") != 1 or len(training) != 1:
        return None
    return training[0] if steps.get("functions") == [training[0].get("python_name")] else None


def _calls(function: dict[str, Any], op: dict[str, Any], is_step: bool) -> float | None:
    """Return how often an op runs in a step: never where its function is not called, once where that is the step."""
    calls = _number(function.get("calls_per_step"))
    open_ = calls is None and "repeats" not in op and op.get("calls_per_step") is None
    if is_step and open_ and not _IN_LOOP.search(str(op.get("op"))):
        return 1.0
    return 0.0 if calls == 0 else _number(op.get("calls_per_step"))


def _part(function: dict[str, Any]) -> int | None:
    key = function.get("key")
    return key if isinstance(key, int) and not isinstance(key, bool) and abs(key) < 2**53 else None


def _attributes(op: dict[str, Any]) -> str:
    given = op.get("attributes")
    attributes = dict(given) if isinstance(given, dict) else {}
    if aliases := [a for a in _list(op.get("alias_of")) if isinstance(a, str)]:
        attributes["aliases"] = aliases
    return json.dumps(attributes, sort_keys=True)


def read_steps(path: Path) -> TableAndNotes:
    """Return `STEPS` of steps.csv; the length of a step is the distance to the next one's start.

    Where numbers jump, one call made several steps (steps_per_execution): each takes its share of the distance.
    A last line that was cut off is dropped; a damaged one elsewhere is skipped and counted, and then a jump in the
    numbers gives no length to the step before it. A step in which the whole process stood still has none either.
    """
    lines, refused = _rows(path)
    rows = [row for row in lines if len(row) == 3 and _whole(row[0]) and _whole(row[1])]
    notes = (*refused, *_skipped(path, len(lines) - len(rows)))
    if not rows:
        return None, notes
    steps, starts = [int(r[0]) for r in rows], [int(r[1]) for r in rows]
    jumps = [b - a for a, b in pairwise(steps)]
    sure = [jump == 1 or (jump > 1 and not notes) for jump in jumps]
    apart = [b - a for a, b in pairwise(starts)]
    lengths = [d // j if ok and d >= 0 else None for d, j, ok in zip(apart, jumps, sure, strict=True)]
    pauses = _pauses(path.with_name("probe.json"))
    if pauses and min(apart, default=0) >= 0:
        notes += (_stood_still(pauses),)
        for row in _paused(starts, pauses):
            lengths[row] = None
    kinds = [r[2] if r[2] in KINDS else "measured" for r in rows]
    return Table(STEPS, {"step": steps, "start_ns": starts, "duration_ns": [*lengths, None], "kind": kinds}), notes


def _pauses(path: Path) -> list[tuple[int, int]]:
    """Return start and stop of each time that the process stood still, in order, without those that overlap."""
    found: list[tuple[int, int]] = []
    for said in _list(read_object(path).get("pauses")):
        start, stop = (said.get("start_ns"), said.get("stop_ns")) if isinstance(said, dict) else (None, None)
        if isinstance(start, int) and isinstance(stop, int) and (found[-1][1] if found else 0) <= start < stop < 2**53:
            found.append((start, stop))
    return found


def _paused(starts: list[int], pauses: list[tuple[int, int]]) -> list[int]:
    """Return the rows in which the process stood still: a pause was seen with the moments before and after it."""
    rows = list[int]()
    for start, stop in pauses:
        near = range(max(0, bisect_right(starts, start) - 1), min(bisect_left(starts, stop), len(starts) - 1))
        rows += [row for row in near if starts[row + 1] - starts[row] > (stop - start) / 2]
    return rows


def _stood_still(pauses: list[tuple[int, int]]) -> Note:
    times = "once" if len(pauses) == 1 else f"{len(pauses)} times"
    seconds = sum(stop - start for start, stop in pauses) / 1e9
    why = "stopped by Ctrl-Z or its like, or its machine was"
    message = f"the workload stood still {times}, for {seconds:.0f} s ({why}): steps that this fell into have no length"
    return Note("stood-still", message, None, "note")


def read_metrics(path: Path) -> TableAndNotes:
    """Return `METRICS` of metrics.csv; damaged lines are skipped and counted."""
    lines, refused = _rows(path)
    rows = [row for row in lines if len(row) == 4 and row[1] and _figure(row[2]) is not None]
    notes = (*refused, *_skipped(path, len(lines) - len(rows)))
    if not rows:
        return None, notes
    columns = {
        "step": [int(r[0]) if _whole(r[0]) else None for r in rows],
        "name": [r[1] for r in rows],
        "value": [_figure(r[2]) for r in rows],
        "unit": [r[3] or None for r in rows],
    }
    return Table(METRICS, columns), notes


def _rows(path: Path) -> tuple[list[list[str]], tuple[Note, ...]]:
    """Return the rows below the header, without a last line that was cut off, and why the file cannot be read."""
    try:
        text = read(path, MOST_LOG_BYTES, _home(path)).decode("utf-8", "replace")
    except MissingInput:
        return [], ()
    except InputError as error:
        return [], (damaged(path, error.found, "nothing of it is used"),)
    whole = text[: text.rfind("\n") + 1].replace("\0", "").splitlines()
    try:
        return [row for row in list(csv.reader(whole))[1:] if row], ()
    except csv.Error:
        return [row for line in whole[1:] if (row := _fields(line))], ()


def _home(path: Path) -> Path:
    """Return the run folder of a file of the probe's; no link of it is followed beyond."""
    return path.parent.parent


def _reason(error: Exception) -> str:
    return error.found if isinstance(error, InputError) else str(error)


def _fields(line: str) -> list[str]:
    try:
        return next(iter(csv.reader([line])), [])
    except csv.Error:
        return [""]


def _skipped(path: Path, count: int) -> tuple[Note, ...]:
    if not count:
        return ()
    lines = "1 line is" if count == 1 else f"{count} lines are"
    return (damaged(path, f"{lines} damaged", "skipped"),)


def damaged(path: Path, found: str, effect: str) -> Note:
    """Return the note on a file of the probe's: what is wrong with it, and what that costs."""
    name = f"{path.parent.name}/{path.name}"
    return Note(f"damaged-{path.stem}", f"{name}: {found}: {effect}", "run `tcprobe profile` again to have it whole")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 2**53:
        return None
    return float(value)


def _whole(text: str) -> bool:
    """Whether it is a whole number that a float64 column holds exactly."""
    return text.isascii() and text.isdigit() and len(text) <= 16 and int(text) < 2**53


def _json_list(value: Any) -> str | None:
    return json.dumps(value) if isinstance(value, list) else None


def _figure(text: str) -> float | None:
    """Return the number; NaN and infinities are figures that a script may log, and digits past a double's are none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isinf(value) and "inf" not in text.lower() else value
