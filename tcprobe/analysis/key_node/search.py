"""`find_key_nodes`: rank what fires once in each step of a profile, and call out what only seems to.

DLProf ends an iteration where an instance of its key node ends, so work of a step after that counts to the next one.
Source: DLProf's help, --key_node: "Iteration intervals are determined from the NVTX end times of each key node
instance."
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tcprobe.analysis.key_node.series import UNEVEN, Series, series_of
from tcprobe.analysis.key_node.steps import Steps, busy, find_steps
from tcprobe.analysis.key_node.timing import Timing, timings
from tcprobe.schema.key_nodes.found import Candidate, Fired, KeyNodes
from tcprobe.schema.key_nodes.kinds import SERIOUS, Cadence, Flaw, Merit, WhyNone
from tcprobe.schema.profile import Profile

AT_END: Final = 0.8  # of a step: what ends later is near its end
EARLY: Final = 0.5
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
    told = dict(zip(map(id, near), timings(near, steps), strict=True))
    any_gpu = any(one.fired.gpu_ns for one in series)
    for one in series:
        if id(one) in told:
            yield _near(one.fired, told[id(one)], steps, any_gpu)
        elif one.counted:
            cadence, every = _cadence(one.fired.calls, steps.count)
            yield Candidate(one.fired, cadence, every, merits=_merits(one.fired), flaws=_named(one.fired))


def _cadence(calls: int, steps: int) -> tuple[Cadence, int]:
    if calls > steps and not calls % steps:
        return "several_per_step", calls // steps
    return ("per_epoch", steps // calls) if 1 < calls < steps and not steps % calls else ("irregular", 1)


def _near(fired: Fired, timing: Timing | None, steps: Steps, any_gpu: bool) -> Candidate:
    """Return what ran once in each step, by its count and, where they are known, its times."""
    merits, flaws = _merits(fired), _named(fired)
    flaws += ("cut",) if fired.calls != steps.count else ()
    flaws += ("no_gpu_time",) if any_gpu and fired.what == "op" and not fired.gpu_ns else ()
    if timing is None:
        return Candidate(fired, "per_step", merits=merits, flaws=flaws)
    flaws += ("uneven",) if timing.gap_cv is not None and timing.gap_cv > UNEVEN else ()
    flaws += ("early",) if timing.position is not None and timing.position < EARLY else ()
    merits = (*(("at_end",) if (timing.position or 0.0) >= AT_END else ()), *merits)
    cadence: Cadence = "per_step" if timing.once_each else "irregular"
    return Candidate(fired, cadence, 1, timing.once_each, timing.position, timing.gap_cv, merits, flaws)


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
