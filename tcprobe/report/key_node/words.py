"""What a search for a key node found, in words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from tcprobe.masking import mask_words
from tcprobe.schema.key_nodes.found import Candidate, KeyNodes
from tcprobe.schema.key_nodes.kinds import Cadence, Flaw, Merit, StepsBasis, WhyNone

MERITS: Final[Mapping[Merit, str]] = {
    "at_end": "near the end of the step",
    "optimizer_sum": "adds in the optimizer, as its counter does",
    "update": "updates weights",
    "counter": "counts up",
}
FLAWS: Final[Mapping[Flaw, str]] = {
    "one_replica": "of one replica alone",
    "loop_body": "in the body of a loop",
    "conditional": "in a conditional: may not run in each step",
    "xla_cluster": "in an XLA cluster, whose name may change",
    "runtime": "added by the runtime, may go with its optimisations",
    "cut": "one call more or less than there are steps: the recording is cut within a step",
    "early": "early in the step: what follows counts to the next",
    "no_gpu_time": "no GPU time",
    "uneven": "comes unevenly",
}
BASES: Final[Mapping[StepsBasis, str]] = {
    "marks": "as the profile marks them",
    "probe": "as the probe counted them",
    "calls": "by the number of calls alone",
}
AGAIN: Final = "record a run of 20 steps or more, with the ops that it calls"
NONE: Final[Mapping[WhyNone, tuple[str, str]]] = {
    "no_calls": (
        "no key node: the profile says of no op of a framework and of no range how often it ran",
        "give a profile that does: DLProf's detail report (--reports=detail), *.xplane.pb with host ops, or NVTX "
        "ranges recorded by Nsight Systems",
    ),
    "few_steps": ("no key node: the profile holds {}, and only several tell what fires once in each", AGAIN),
    "numbered_ranges": (
        "no key node: most ranges have a number in their names, so that each fires once",
        r"if the numbers are those of steps: tcprobe report PATH --step-range '^NAME (\d+)'",
    ),
    "nothing_regular": (
        "no key node: there is no number of calls that most ops share, so nothing is known to fire once in each step",
        "record only training, after the warm-up (--delay, --duration), or mark the steps with a range",
    ),
}
"""Message and remedy."""
ENDS_AT: Final = "Ends at: 0 % is where a step begins, 100 % where the last of these ends."
SELDOM: Final = (
    "What fires once in several steps does so in each epoch, or after the gradients of so many are accumulated."
)
UNSURE: Final = (
    "that this fires once in each step follows from its count of calls alone: no time and no mark of a step confirms it"
)
UNSURE_REMEDY: Final = "compare the iterations that DLProf finds with it to the steps that you ran"


def why_none(found: KeyNodes) -> tuple[str, str]:
    """Return why there is no key node, and what to do about it."""
    message, remedy = NONE[found.why_none or "nothing_regular"]
    few = f"{found.steps} step{'s' * (found.steps != 1)}" if found.steps else "one step or two"
    return message.format(few), remedy


def steps_of(found: KeyNodes) -> str:
    """Return how many steps there are, what says so, and how many ops agree."""
    basis = BASES[found.basis or "calls"]
    return f"{found.steps:,}, {basis}; {found.agreeing:,} of {found.among:,} {busy(found)} ran so often"


def busy(found: KeyNodes) -> str:
    """Return what was weighed."""
    timed = any(c.fired.gpu_ns for c in (*found.candidates, *found.others))
    ranges = all(c.fired.what == "range" for c in found.candidates)
    return "ranges" if ranges else "ops with GPU time" if timed else "ops"


def reasons(candidate: Candidate, basis: StepsBasis | None) -> str:
    """Return how it shows that a candidate is one, and what speaks for it and against it."""
    shows = "by its calls alone" if basis == "calls" else "as many calls as steps"
    said = [*(MERITS[m] for m in candidate.merits), *(FLAWS[f] for f in candidate.flaws)]
    return "; ".join(["seen once in each step" if candidate.seen else shows, *said])


def fires(cadence: Cadence, every: int) -> str:
    """Return how often something fires."""
    match cadence:
        case "per_step":
            return "once in each step"
        case "several_per_step":
            return f"{every:,} times in each step"
        case "per_epoch":
            return f"once in {every:,} steps"
        case "irregular":
            return "irregularly"


def chosen_because(found: KeyNodes) -> str:
    """Return in one line why the best candidate was chosen."""
    best = found.best
    return "" if best is None else f"{best.fired.calls:,} calls in {found.steps:,} steps; {reasons(best, found.basis)}"


def next_command(found: KeyNodes, words: Sequence[str], path: str | None) -> str:
    """Return what to type with the best candidate.

    Args:
        found: with a candidate.
        words: the workload; empty where a profile was given.
        path: the profile that was searched.
    """
    best = found.best
    if best is None:
        return ""
    if best.fired.what == "range":
        return f"tcprobe report {shlex.quote(path or 'PATH')} --step-range {shlex.quote(exactly(best.fired.name))}"
    workload = shlex.join(mask_words(words)) if words else "WORKLOAD"
    return f"tcprobe profile --profiler dlprof --key-node {shlex.quote(best.fired.key)} {workload}"


def exactly(name: str) -> str:
    """Return the regular expression for exactly this name."""
    return f"^{re.escape(name)}$"
