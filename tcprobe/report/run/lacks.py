"""What a profile lacks, what cannot be told for that, and what records it: `tcprobe doctor PATH`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from tcprobe.formatting import many
from tcprobe.masking import mask_words
from tcprobe.report.fields import field_of, sentence_of
from tcprobe.report.grid import table_lines
from tcprobe.report.run.document import why_absent
from tcprobe.schema.profile import Profile
from tcprobe.schema.statement import State
from tcprobe.schema.tables import NAMELESS
from tcprobe.tensor_metrics import tensor_metrics

FEW: Final = 5  # kernels of unknown class that the command names: those that take the most time
LAUNCHES: Final = 50  # that it counts, so that it ends soon
ON_GPU: Final = "tcprobe profile WORKLOAD, on a GPU"
BY_NSYS: Final = "tcprobe profile --profiler nsys WORKLOAD"
BY_PROBE, BY_TORCH = "tcprobe profile WORKLOAD", "torch.profiler with record_shapes=True, with_stack=True"
WITH_GRAPH: Final = f"{BY_PROBE} (TensorFlow); {BY_TORCH}"
TABLES: Final = (
    ("kernels", "whether Tensor Cores are used, and everything that rests on kernels", ON_GPU),
    ("launches", "waiting, gaps between kernels, chains", BY_NSYS),
    ("range_kernels", "kernels by range of the code (--by range)", BY_NSYS),
    ("ops", "which op a kernel is of", WITH_GRAPH),
    ("layers", "which layer a kernel is of, and its line", WITH_GRAPH),
    ("gemms", "sizes of products, so badly sized layers and FLOPs", WITH_GRAPH),
)
"""Table -> what cannot be told without it, and what records it."""


class Lack(Struct, frozen=True):
    """One line."""

    state: State
    check: str  # a table of `tcprobe.schema.tables`, gpu, steps, counters, or the code of a note
    text: str  # what is missing, and why
    costs: str | None = None  # what cannot be told for it
    remedy: str | None = None  # what records it


def lacks_of(profile: Profile, path: str) -> Iterator[Lack]:
    """Yield what an analysed profile lacks.

    Args:
        profile: the profile.
        path: how the user names it.
    """
    if not any(row["name"] for row in profile.require("devices").rows()):
        costs = "peaks and what-ifs, but for a GPU that --target-gpu names"
        why = profile.absent.get("devices", "the profile names no GPU")
        yield Lack("warning", "gpu", why, costs, ON_GPU)
    if profile.marked_steps is None:
        ranges = len(profile.require("ranges")) > 0
        of_ranges = f"tcprobe report {shlex.quote(path)} --step-range REGEX, or " if ranges else ""
        remedy = f"{of_ranges}tcprobe profile WORKLOAD"
        yield Lack("warning", "steps", "no steps are marked", "times of a step, and what each step saves", remedy)
    elif not len(profile.require("ranks")) and not _outside(profile):
        why = "no step was timed outside the profiler"
        yield Lack("warning", "overhead", why, "how much it slows the steps", BY_PROBE)
    for name, costs, remedy in TABLES:
        if not len(profile.require(name)) and not (name == "launches" and len(profile.require("ranks"))):
            state: State = "problem" if name == "kernels" else "warning"
            recorder = _graph_recorder(profile) if remedy == WITH_GRAPH else remedy
            yield Lack(state, name, why_absent(profile, name), costs, recorder)
    yield from _counters(profile, path)
    for note in profile.metadata.notes:
        if note.remedy and note.level != "note":
            yield Lack("warning", note.code, note.message, None, note.remedy)


def _outside(profile: Profile) -> bool:
    return bool(profile.require("steps").names("kind").among("measured", "after").any())


def _graph_recorder(profile: Profile) -> str:
    """Return what records ops with their layers and sizes, of the framework that ran where that is known."""
    framework = (profile.metadata.framework or "").lower()
    return BY_TORCH if framework.startswith("pytorch") else BY_PROBE if "tensorflow" in framework else WITH_GRAPH


def _counters(profile: Profile, path: str) -> Iterator[Lack]:
    """Yield how many classes are unknown, with the command that settles those which take the most time."""
    unknown = (row for row in profile.require("kernels").rows() if row["uses_tc"] == "unknown" and row["kernel"])
    rows = [row for row in unknown if row["kernel"] != NAMELESS]  # which no pattern finds
    if not rows:
        return
    rows.sort(key=lambda row: -float(row["sum_ns"] or 0))
    names = list(dict.fromkeys(_function(str(row["kernel"])) for row in rows))
    which = "|".join(map(re.escape, names[:FEW]))
    words = shlex.join(mask_words(profile.metadata.command)) or "WORKLOAD"
    if profile.metadata.run or words == "WORKLOAD":
        of = f"--kernels {shlex.quote(which)} --launch-count {LAUNCHES} --output counters"
        counted, file = f"tcprobe profile --profiler ncu {of} {words}", "counters/raw/ncu/report.csv"
    else:  # the command names its program, which need not be Python
        of = f"--kernel-name {shlex.quote(f'regex:{which}')} --launch-count {LAUNCHES}"
        file = "counters.csv"
        counted = f"ncu --csv --page raw --metrics {','.join(tensor_metrics())} {of} {words} > {file}"
    remedy = f"{counted}, then tcprobe report {shlex.quote(path)} --counters {file}"
    why = f"names do not tell the class of {many(len(names), 'kernel')}; {why_absent(profile, 'kernel_counters')}"
    yield Lack("warning", "counters", why, "whether these use Tensor Cores", remedy)


def _function(kernel: str) -> str:
    """Return the name of a kernel's function as Nsight Compute compares it: no type, namespaces and arguments."""
    bare = re.split(r"[<(]", kernel.replace("(anonymous namespace)::", ""), maxsplit=1)[0].strip()
    return re.split(r"::|\s", bare)[-1] or kernel


def lines_of_lacks(lacks: Sequence[Lack], width: int | None) -> list[str]:
    """Return the table for people."""
    fields = (
        field_of("state", lambda lack: lack.state),
        field_of("check", lambda lack: lack.check),
        sentence_of("what is missing", lambda lack: lack.text),
        sentence_of("what cannot be told", lambda lack: lack.costs),
        sentence_of("what to do", lambda lack: lack.remedy),
    )
    return table_lines(fields, lacks, width) or ["nothing is missing that a report takes"]
