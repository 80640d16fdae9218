"""Read what the probe wrote into a run folder as tables: the graph, the phases, steps and logged figures."""

from __future__ import annotations

import csv
import json
import math
import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, convert, field

from tcprobe.errors import InputError, MissingInput
from tcprobe.foreign import read
from tcprobe.jsonfile import MOST_BYTES, Count, Number, Text, parse, read_object, record, records
from tcprobe.schema.columns import Table
from tcprobe.schema.op import PASSES, Part
from tcprobe.schema.profile import Note
from tcprobe.schema.tables import EXECUTES_BASES, GRAPH_OPS, METRICS, PHASES, SCOPES, STEPS, USES_TC

MOST_LOG_BYTES: Final = 1 << 30  # a month of steps of 100 ms; one step takes 30 bytes
MOST_PHASES: Final = 256  # the probe tells 64 stretches apart; each is a pass over the whole graph
KINDS: Final = STEPS.column("kind").values
TableAndNotes = tuple[Table | None, tuple[Note, ...]]
PLAIN: Final = ("op", "op_type", "executed_op", "executed_type", "layer", "layer_class", "source", "called_from")
_IN_LOOP = re.compile(r"(?:^|/)(?:while|cond|case)(?:_\d+)?/")


class _Op(Struct):
    """An op of graph.json; what is named as in `GRAPH_OPS` is its column."""

    op: Text
    op_type: Text
    executed_op: Text | None = None
    executed_type: Text | None = None
    layer: Text | None = None
    layer_class: Text | None = None
    source: Text | None = None
    called_from: Text | None = None
    executes: str | None = None
    pass_: str | None = field(default=None, name="pass")
    input_shapes: list[Any] | None = None
    input_dtypes: list[Any] | None = None
    output_shapes: list[Any] = field(default_factory=list)
    output_dtypes: list[Any] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    alias_of: list[Any] = field(default_factory=list)
    # a damaged number is not an absent one, which says that the probe left the calls open
    calls_per_step: Any = None
    repeats: Any = UNSET
    at_least: Any = False


class _Function(Struct):
    """A function of graph.json."""

    name: Text | None = None
    python_name: Any = None
    training: Any = False
    key: Annotated[int, Meta(gt=-(2**53), lt=2**53)] | None = None
    executed_basis: str | None = None
    calls_per_step: Number | None = None
    calls_in_phases: list[Any] | None = None
    ops: list[Any] = field(default_factory=list)


class _Pause(Struct):
    """A time that the process stood still."""

    start_ns: int
    stop_ns: Annotated[int, Meta(lt=2**53)]


class _Part(Struct):
    """A part of a step, by the number that the graph knows it by."""

    key: Count
    name: str = ""
    calls_per_step: Annotated[int, Meta(ge=0, lt=2**53)] | Annotated[float, Meta(ge=0, lt=2**53)] | None = None


class _Phase(Struct):
    """A phase of probe.json."""

    first_step: Count
    last_step: Count
    parts: list[Any] = field(default_factory=list)
    basis: str | None = None


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
    probe = read_object(path.with_name("probe.json"), _home(path))
    parts = _parts(probe)
    trained = [f for f in records(_Function, functions) if f.training or f.key in parts]
    ops = [(f, record(_Op, op)) for f in trained for op in f.ops]
    good = [(f, op) for f, op in ops if op]
    notes = (damaged(path, f"{len(ops) - len(good)} of {len(ops)} ops lack a name or type", "they are left out"),)
    return (_graph_table(good, _whole_step(probe, trained)) if good else None), notes if len(good) < len(ops) else ()


def read_scopes(path: Path) -> TableAndNotes:
    """Return `SCOPES` of graph.json; `read_graph` says what is wrong with the file."""
    found = read_object(path, _home(path)).get("scopes")
    rows = found.items() if isinstance(found, dict) else ()
    good = [{"scope": scope, "layer": layer} for scope, layer in rows if scope and _text(layer)]
    return (Table.from_rows(SCOPES, good) if good else None), ()


def _graph_table(ops: list[tuple[_Function, _Op]], whole: _Function | None) -> Table:
    return Table(
        GRAPH_OPS,
        {
            **{name: [getattr(op, name) for _, op in ops] for name in PLAIN},
            "function": [f.name for f, _ in ops],
            "executes": [op.executes if op.executes in USES_TC else "unknown" for _, op in ops],
            "executes_basis": [_basis(f, op) for f, op in ops],
            "pass": [op.pass_ if op.pass_ in PASSES else None for _, op in ops],
            "input_shapes": [_json_list(op.input_shapes) for _, op in ops],
            "input_dtypes": [_json_list(op.input_dtypes) for _, op in ops],
            "output_shape": [_json_list(next(iter(op.output_shapes), None)) for _, op in ops],
            "output_dtype": [_text(next(iter(op.output_dtypes), None)) for _, op in ops],
            "attributes": [_attributes(op) for _, op in ops],
            "calls_per_step": [_calls(f, op, f is whole) for f, op in ops],
            "part": [f.key for f, _ in ops],
            "calls_in_phases": [_json_list(f.calls_in_phases) for f, _ in ops],
            "repeats": [_number(op.repeats) for _, op in ops],
            "at_least": [op.at_least is True for _, op in ops],
        },
    )


def _basis(function: _Function, op: _Op) -> str | None:
    """Return what says whether the op executes; where XLA compiles all that is traced, only liveness says no."""
    basis = function.executed_basis
    if basis == "traced" and op.executes == "no":
        return "liveness"
    return basis if basis in EXECUTES_BASES else None


def _parts(probe: dict[str, Any]) -> frozenset[int | None]:
    """Return the numbers of the parts of training that probe.json lists, whatever their functions are said to do."""
    phases = read_phases(probe)
    return frozenset(p.key for parts in phases.values("parts") for p in Part.all_of(parts)) if phases else frozenset()


def _whole_step(probe: dict[str, Any], training: list[_Function]) -> _Function | None:
    """Return the function that is a step by itself, by probe.json; None where several train, or a step is more.

    Probes that recorded no loops (`repeats`) left its calls open at times.
    """
    steps = probe.get("steps")
    if not isinstance(steps, dict) or steps.get("period") != 1 or len(training) != 1:
        return None
    return training[0] if steps.get("functions") == [training[0].python_name] else None


def _calls(function: _Function, op: _Op, is_step: bool) -> float | None:
    """Return how often an op runs in a step: never where its function is not called, once where that is the step."""
    if is_step and function.calls_per_step is op.calls_per_step is None and op.repeats is UNSET:
        return None if _IN_LOOP.search(op.op) else 1.0
    return 0.0 if function.calls_per_step == 0 else _number(op.calls_per_step)


def _attributes(op: _Op) -> str:
    aliases = [alias for alias in op.alias_of if isinstance(alias, str)]
    return json.dumps({**op.attributes, **({"aliases": aliases} if aliases else {})}, sort_keys=True)


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
    for pause in records(_Pause, read_object(path).get("pauses")):
        if (found[-1][1] if found else 0) <= pause.start_ns < pause.stop_ns:
            found.append((pause.start_ns, pause.stop_ns))
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


def read_phases(probe: dict[str, Any], graph: dict[str, Any] | None = None) -> Table | None:
    """Return what probe.json says of `PHASES`; None where it says nothing that can be used.

    Of graph.json it takes which parts were not recorded.

    Phases that overlap, end before they start, or are more than a run has, are those of a damaged file: none of them
    is used.
    """
    given = probe.get("phases")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_PHASES:
        return None
    unrecorded = (graph or {}).get("unrecorded")
    rows = [_phase(number, one, unrecorded) for number, one in enumerate(records(_Phase, given))]
    if len(rows) < len(given) or any(row["steps"] < 1 for row in rows):
        return None
    table = Table.from_rows(PHASES, rows)
    apart = table.numbers("first_step")[1:] > table.numbers("last_step")[:-1]
    return table if apart.all() else None


def _phase(number: int, phase: _Phase, unrecorded: Any) -> dict[str, Any]:
    left_out = unrecorded if isinstance(unrecorded, list) else []
    parts = (Part(p.key, p.name, p.calls_per_step, p.key not in left_out) for p in records(_Part, phase.parts))
    return {
        "phase": number,
        "first_step": phase.first_step,
        "last_step": phase.last_step,
        "steps": phase.last_step - phase.first_step + 1,
        "parts": Part.text_of(parts),
        "basis": phase.basis,
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    try:
        number: float = convert(value, Number)
    except ValueError:  # another value, or half a character
        return None
    return number


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
