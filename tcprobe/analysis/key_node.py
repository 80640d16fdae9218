"""`find_key_nodes`: rank what fires once in each step of a profile, and call out what only seems to.

DLProf ends an iteration where an instance of its key node ends, so work of a step after that counts to the next one.
Source: DLProf's help, --key_node: "Iteration intervals are determined from the NVTX end times of each key node
instance."

All ops and ranges that may mark steps: how often each ran and when it ended; and how many steps there are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from tcprobe.analysis.host import LEAST_STEPS
from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.key_nodes import SERIOUS, Cadence, Candidate, Fired, Flaw, KeyNodes, Merit, StepsBasis, WhyNone
from tcprobe.schema.profile import Profile

FUNCTION: Final = "__"
"""What the name of a traced function begins with; it ends in a number that differs from run to run."""
WARM_UP: Final = 0.2  # of the steps, the first; at least one
UNEVEN: Final = 0.5  # coefficient of variation of the gaps: exponential ones, which come at random, have 1
MOST: Final = 0.6
"""Share of the repeated ops whose calls are a multiple of the number of steps. Those that a step calls are most of what
a training repeats; those of epochs and validation are few beside them."""
AGREE: Final = 0.25
"""Share of the busy ops that must have run exactly so often. With fewer some of them must come evenly: the layers of a
single step repeat as well, and few ops have their number."""
REPEATED: Final = 0.5
"""Share of the busy ops that must repeat, which set-up does not: else few steps were recorded, and what repeats is
called several times in one."""
OFTEN: Final = 100
"""Calls of what repeats though few ops do: a loop of few ranges, and a set-up of many that came once."""
_Op = tuple[str, str | None]


class Series(Struct, frozen=True):
    """One op or range over time."""

    fired: Fired  # what it is, and how often it ran
    # host time at which each of its calls ended, or launched its last kernel, in order; None where unknown
    ends: FloatArray | None = None
    # whether the source counted its calls; False if each kernel that it launched is taken for one
    counted: bool = True

    @property
    def gap_cv(self) -> float | None:
        """Return how unevenly it comes, as `gap_cv` says; None where no time tells."""
        return None if self.ends is None else gap_cv(self.ends)


class Steps(Struct, frozen=True):
    """The steps of a profile."""

    count: int  # how many there are
    basis: StepsBasis  # what says so
    # host times at which they began, in order, and the last one's end; None where no mark says so
    starts: FloatArray | None = None


def warm(values: FloatArray) -> FloatArray:
    """Return what follows the warm-up."""
    return values[max(1, round(len(values) * WARM_UP)) :]


def gap_cv(ends: FloatArray) -> float | None:
    """Return standard deviation over mean of the gaps after the warm-up; None of fewer than two."""
    gaps = warm(np.diff(ends))
    return float(gaps.std() / gaps.mean()) if len(gaps) > 1 and gaps.mean() > 0 else None


def series_of(profile: Profile) -> list[Series]:
    """Return every op and range that ran, in the order of the profile."""
    return [*_ops(profile), *_ranges(profile.require("ranges"))]


def busy(series: Sequence[Series]) -> list[Series]:
    """Return what took GPU time and was counted; all that was counted where nothing did, or no time is known."""
    counted = [one for one in series if one.counted] or list(series)
    return [one for one in counted if one.fired.gpu_ns] or counted


def find_steps(profile: Profile, series: Sequence[Series]) -> Steps | None:
    """Return the steps; None where nothing tells of three or more.

    Marks and the probe's count hold only where something ran so often: a profile may mark calls that are no steps,
    and the probe counts steps that were not recorded.
    """
    weighed = busy(series)
    counts = Counter(one.fired.calls for one in weighed)
    starts, probed = _marked(profile), len(profile.require("steps"))
    marked = len(starts) - 1
    if marked >= LEAST_STEPS and any(counts[marked + more] for more in (-1, 0, 1)):
        return Steps(marked, "marks", starts)
    if probed >= LEAST_STEPS and counts[probed]:
        return Steps(probed, "probe")
    called = _by_calls(counts)
    exact = [one for one in weighed if one.fired.calls == called]
    even = any(cv is not None and cv <= UNEVEN for cv in (one.gap_cv for one in exact))
    return Steps(called, "calls") if called and (even or len(exact) >= AGREE * len(weighed)) else None


def _ops(profile: Profile) -> Iterator[Series]:
    """Yield the ops of the framework; of some sources also XLA's instructions are known, by types in lower case."""
    launched, gpu_ns = _launched(profile), _gpu_times(profile)
    any_gpu = any(gpu_ns.values())
    host, shows_xla = profile.require("host_ops"), "shows_xla" in profile.traits
    seen: set[_Op] = set()
    columns = [host.values(name) for name in ("op", "op_type", "calls", "profiler_id")]
    for op, op_type, calls, op_id in zip(*columns, strict=True):
        key = str(op), str(op_type)
        seen.add(key)
        if calls and not key[0].startswith(FUNCTION) and not (shows_xla and key[1][:1].islower()):
            time = gpu_ns[key] if any_gpu else None
            fired = Fired("op", key[0], int(calls), str(op_id) if op_id else None, key[1], gpu_ns=time)
            yield Series(fired, _instances(launched.get(key), int(calls)))
    for (name, kind), ends in launched.items():
        if (name, kind) not in seen:
            time = gpu_ns[name, kind] if any_gpu else None
            yield Series(Fired("op", name, len(ends), op_type=kind, gpu_ns=time), ends, counted=False)


def _instances(launched: FloatArray | None, calls: int) -> FloatArray | None:
    """Return the time of the last launch of each call; None if the launches are no multiple of the calls."""
    if launched is None or len(launched) % calls:
        return None
    each = len(launched) // calls
    return launched[each - 1 :: each]


def _launched(profile: Profile) -> dict[_Op, FloatArray]:
    """Return the host times of the launches of each op on its first GPU, in order; none where one is unknown.

    Instructions that XLA made are left out: other profilers see the whole cluster alone.
    """
    launches, ops = profile.require("launches"), profile.require("op_details")
    ends: dict[_Op, FloatArray] = {}
    if not len(launches) or not len(ops):
        return ends
    op, device, at = (launches.numbers(name) for name in ("op_id", "device", "launch_ns"))
    order = np.lexsort((at, device, op))
    bounds = np.searchsorted(op[order], np.arange(len(ops) + 1))
    names = zip(*(ops.names(column).tolist() for column in ("op", "op_type", "hlo_op")), strict=True)
    for row, (name, op_type, hlo_op) in enumerate(names):
        rows = order[bounds[row] : bounds[row + 1]]
        times = at[rows[device[rows] == device[rows[0]]]] if len(rows) else np.zeros(0)
        if name and hlo_op is None and len(times) and not np.isnan(times).any():
            before = ends.get((name, op_type))
            ends[name, op_type] = times if before is None else np.sort(np.concatenate([before, times]))
    return ends


def _gpu_times(profile: Profile) -> Counter[_Op]:
    """Return the kernel time of each op."""
    ops, launches = profile.require("ops"), profile.require("launches")
    times = ops.numbers("union_ns")
    if not len(ops):
        ops = profile.require("op_details")
        held = launches.numbers("op_id") >= 0
        weights = launches.numbers("duration_ns")[held]
        times = np.bincount(launches.numbers("op_id")[held], weights=weights, minlength=len(ops))[: len(ops)]
    spent: Counter[_Op] = Counter()
    for op, op_type, time in zip(ops.names("op").tolist(), ops.names("op_type").tolist(), times.tolist(), strict=True):
        spent[str(op), op_type] += int(time) if time == time else 0
    return spent


def _ranges(ranges: Table) -> Iterator[Series]:
    """Yield the ranges of each domain and name."""
    if not len(ranges):
        return
    domain, name, op_type = (ranges.names(c) for c in ("domain", "name", "op_type"))
    ends = ranges.numbers("start_ns") + ranges.numbers("duration_ns")
    order = np.lexsort((ends, name.ids, domain.ids))
    new = np.flatnonzero(np.diff(domain.ids[order]) | np.diff(name.ids[order])) + 1
    for rows in np.split(order, new):
        first = int(rows[0])
        fired = Fired("range", str(name[first]), len(rows), op_type=op_type[first], domain=domain[first])
        yield Series(fired, ends[rows].astype(np.float64))


def _marked(profile: Profile) -> FloatArray:
    """Return when the marked steps began, and when the last one ended; only that where none is marked."""
    marks = profile.require("step_marks")
    starts, ends = marks.numbers("start_ns"), marks.numbers("end_ns")
    if not len(marks):
        ranges = profile.require("ranges")
        ranges = ranges.take(ranges.names("kind").among("step"))
        starts = ranges.numbers("start_ns")
        ends = starts + ranges.numbers("duration_ns")
    last = max(int(ends.max()), int(starts.max()) + 1) if len(starts) else 0
    return np.append(np.unique(starts), last).astype(np.float64)


def _by_calls(counts: Counter[int]) -> int | None:
    """Return the largest number of calls of which those of most ops are a multiple.

    That of an epoch is one as well, and smaller; that of ops called several times in a step is of too few.
    """
    repeated = {calls: ops for calls, ops in counts.items() if calls >= LEAST_STEPS}
    if sum(repeated.values()) < REPEATED * sum(counts.values()):
        repeated = {calls: ops for calls, ops in repeated.items() if calls >= OFTEN}
    total = sum(repeated.values())
    for steps in sorted(repeated, reverse=True):
        if sum(ops for calls, ops in repeated.items() if not calls % steps) >= MOST * total:
            return steps
    return None


AT_END: Final = 0.8  # of a step: what ends later is near its end
EARLY: Final = 0.5
MISSED: Final = 0.1  # of the steps, at most: an end may fall just outside its own
LEAST_CUT: Final = 5  # steps from which one call more or less shows a recording that is cut within a step
NAMES: Final[tuple[tuple[Flaw, re.Pattern[str]], ...]] = (
    ("one_replica", re.compile(r"(?:^|/)replica_\d+/")),
    ("loop_body", re.compile(r"(?:^|/)while(?:_\d+)?/")),
    ("conditional", re.compile(r"(?:^|/)cond(?:_\d+)?/")),
    ("xla_cluster", re.compile(r"(?:^|/)(?:cluster_\d+|xla_(?:run|compile))")),
)
RUNTIME: Final = re.compile(
    r"_(?:Host)?(?:Send|Recv)|_Arg|_Retval|_?Switch[N]?|_?Merge|Const|NoOp|VarHandleOp|Identity"
)
"""Ops that the runtime adds or that compute nothing: their names come and go with its optimisations."""
OPTIMIZER: Final = re.compile(r"adam|sgd|rmsprop|adagrad|adadelta|ftrl|lamb|lion|momentum|optimizer|global_step", re.I)
ADDS: Final = re.compile(r"AssignAdd(?:VariableOp)?")
UPDATES: Final = re.compile(r"(?:Resource)?(?:Sparse)?Apply[A-Z]\w*|AssignSub(?:VariableOp)?")
MERITS: Final[tuple[Merit, ...]] = ("optimizer_sum", "update", "counter")


def find_key_nodes(profile: Profile) -> KeyNodes:
    """Search a profile as a reader returns it; the order of its rows does not matter."""
    series = series_of(profile)
    if not series:
        return KeyNodes(profile.metadata.format, why_none="no_calls")
    steps = find_steps(profile, series)
    if steps is None:
        most = max(one.fired.calls for one in busy(series))
        marked = len(profile.require("step_marks"))
        return KeyNodes(profile.metadata.format, marked or (1 if most == 1 else None), why_none=_why(profile, series))
    return _ranked(profile, series, steps)


def _why(profile: Profile, series: Sequence[Series]) -> WhyNone:
    """Say why nothing tells of steps: too few of them, or no count that most ops share."""
    once = sum(one.fired.calls == 1 for one in busy(series))
    few = 0 < len(profile.require("step_marks")) <= 2 or once * 2 > len(busy(series))
    if few and not len(profile.require("step_marks")) and sum(map(_numbered, busy(series))) * 2 > len(busy(series)):
        return "numbered_ranges"
    return "few_steps" if few else "nothing_regular"


def _numbered(one: Series) -> bool:
    """Whether it is a range that came once, with a number in its name: it may be that of a step."""
    return one.fired.what == "range" and one.fired.calls == 1 and any(map(str.isdigit, one.fired.name))


def _ranked(profile: Profile, series: Sequence[Series], steps: Steps) -> KeyNodes:
    judged = list(_judged(series, steps))
    once = sorted((c for c in judged if c.cadence == "per_step"), key=_place)
    others = sorted((c for c in judged if c.cadence in ("per_epoch", "several_per_step")), key=_temptation)
    weighed = busy(series)
    return KeyNodes(
        profile.metadata.format,
        steps.count,
        steps.basis,
        sum(one.fired.calls == steps.count for one in weighed),
        len(weighed),
        tuple(once),
        tuple(others),
        None if once else "nothing_regular",
    )


def _judged(series: Sequence[Series], steps: Steps) -> Iterator[Candidate]:
    near = [one for one in series if abs(one.fired.calls - steps.count) <= (steps.count >= LEAST_CUT)]
    places = dict(zip(map(id, near), _places(near, steps), strict=True))
    any_gpu = any(one.fired.gpu_ns for one in series)
    for one in series:
        if id(one) in places:
            yield _near(one, places[id(one)], steps, any_gpu)
        elif one.counted:
            cadence, every = _cadence(one.fired.calls, steps.count)
            yield Candidate(one.fired, cadence, every, merits=_merits(one.fired), flaws=_named(one.fired))


def _cadence(calls: int, steps: int) -> tuple[Cadence, int]:
    if calls > steps and not calls % steps:
        return "several_per_step", calls // steps
    return ("per_epoch", steps // calls) if 1 < calls < steps and not steps % calls else ("irregular", 1)


def _near(one: Series, place: _Place | None, steps: Steps, any_gpu: bool) -> Candidate:
    """Return what ran once in each step, by its count and, where they are known, its times."""
    fired, merits, flaws = one.fired, _merits(one.fired), _named(one.fired)
    flaws += ("cut",) if fired.calls != steps.count else ()
    flaws += ("no_gpu_time",) if any_gpu and fired.what == "op" and not fired.gpu_ns else ()
    if place is None:
        return Candidate(fired, "per_step", merits=merits, flaws=flaws)
    cv = one.gap_cv
    flaws += ("uneven",) if cv is not None and cv > UNEVEN else ()
    flaws += ("early",) if place.at is not None and place.at < EARLY else ()
    merits = (*(("at_end",) if (place.at or 0.0) >= AT_END else ()), *merits)
    cadence: Cadence = "per_step" if place.once_each else "irregular"
    return Candidate(fired, cadence, 1, place.once_each, place.at, cv, merits, flaws)


def _named(fired: Fired) -> tuple[Flaw, ...]:
    """Return what name and type speak against an op."""
    if fired.what == "range" and fired.op_type is None:
        return ()
    flaws = tuple(flaw for flaw, pattern in NAMES if pattern.search(fired.name))
    return (*flaws, "runtime") if RUNTIME.fullmatch(fired.op_type or "") else flaws


def _merits(fired: Fired) -> tuple[Merit, ...]:
    kind = fired.op_type or ""
    if ADDS.fullmatch(kind):
        return ("optimizer_sum",) if OPTIMIZER.search(fired.name) else ("counter",)
    return ("update",) if UPDATES.fullmatch(kind) else ()


def _place(candidate: Candidate) -> tuple[object, ...]:
    """Return the rank of a candidate; the smallest is the best."""
    flaws, position = candidate.flaws, candidate.position
    by_type = next((n for n, merit in enumerate(MERITS) if merit in candidate.merits), len(MERITS))
    return (
        sum(flaw in SERIOUS for flaw in flaws),
        "cut" in flaws,
        _part(position, by_type < len(MERITS)),
        "no_gpu_time" in flaws,
        "uneven" in flaws,
        by_type,
        -round(position or 0.0, 3),
        candidate.fired.name,
        candidate.fired.op_id or "",
        candidate.fired.domain or "",
    )


def _part(position: float | None, late_by_type: bool) -> int:
    """Return in which part of a step it ends: where no time tells, what needs the gradients is taken to come late."""
    if position is None:
        return 1 if late_by_type else 2
    return 0 if position >= AT_END else 3 if position < EARLY else 2


def _temptation(candidate: Candidate) -> tuple[object, ...]:
    """Return how soon one would take what is no key node for one: an assignment without a flaw first."""
    fired = candidate.fired
    serious = sum(flaw in SERIOUS for flaw in candidate.flaws)
    return candidate.cadence, serious, "Assign" not in (fired.op_type or ""), fired.name, fired.op_id or ""


# --- where in a step something ends ---------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where in its step something ends; see `Candidate.position`."""

    once_each: bool  # whether times show one in each step
    at: float | None


def _places(series: Sequence[Series], steps: Steps) -> list[_Place | None]:
    """Return where each ends in a step; None where its own times are not known."""
    begin, bounds = 0.0, steps.starts
    if bounds is not None:
        ends = [None if one.ends is None else _within(one.ends, bounds) for one in series]
    else:
        ends = _side_by_side(series, steps.count)
    once = [at for each, at in filter(None, ends) if each]
    if bounds is None:
        begin = min(once, default=0.0)
    length = max(once, default=0.0) - begin
    return [
        None
        if end is None
        else _Place(end[0], (end[1] - begin) / length if end[0] and len(once) > 1 and length > 0 else None)
        for end in ends
    ]


def _within(ends: FloatArray, bounds: FloatArray) -> tuple[bool, float]:
    """Return whether one end lies between each two bounds, and the median of how far into them."""
    at = np.searchsorted(bounds, ends, side="left") - 1
    inside = (at >= 0) & (at < len(bounds) - 1)
    at, ends = at[inside], ends[inside]
    held = np.bincount(at, minlength=len(bounds) - 1)
    far = (ends - bounds[at]) / (bounds[at + 1] - bounds[at])
    return float((held != 1).mean()) <= MISSED, float(np.median(far)) if len(far) else 0.0


def _side_by_side(series: Sequence[Series], count: int) -> list[tuple[bool, float] | None]:
    """Pair the calls of all that came as often, the first with the first, with those that come most evenly.

    One that lies further from its counterpart than half a step more or less than usual is not of the same step.
    """
    same = [one.ends if one.ends is not None and len(one.ends) == count else None for one in series]
    exact = [ends for ends in same if ends is not None]
    if not exact:
        return [None] * len(series)
    even = min(exact, key=lambda ends: (_unevenness(ends), float(ends[0]), float(ends[-1])))
    period = float(np.median(np.diff(even))) or 1.0
    return [None if ends is None else _beside(warm((ends - even) / period)) for ends in same]


def _beside(apart: FloatArray) -> tuple[bool, float]:
    at = float(np.median(apart))
    return abs(at) < 1 and float((np.abs(apart - at) > 0.5).mean()) <= MISSED, at


def _unevenness(ends: FloatArray) -> float:
    cv = gap_cv(ends)
    return float("inf") if cv is None else cv
