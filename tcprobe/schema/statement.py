"""`Statement`: a message as a kind with fields. Reports turn it into words; no code parses the words.

`Check`: one thing that a recording on this machine needs, and how it stands, of which a statement says what was seen.
"""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=str)
Kind_co = TypeVar("Kind_co", bound=str, covariant=True)
FieldValue: TypeAlias = "str | int | float | bool | About | Statement[str] | tuple[FieldValue, ...] | None"


class About(Struct, frozen=True):
    """The subject of a statement, as the sentence names it: ``Conv2D 'conv2d_1' filters=31``."""

    class_name: str  # class of the layer, or type of an op that the user's code calls itself
    name: str  # name of the layer or op
    # dimension, size: the dimension concerned; None if the whole layer is meant.
    dimension: str | None = None
    size: int | None = None
    more: int = 0  # number of further layers on the same line to which the statement applies


class Statement(Struct, Generic[Kind_co], frozen=True):
    """One message."""

    kind: Kind_co  # from a closed list
    fields: tuple[tuple[str, FieldValue], ...] = ()  # what its sentence names; every kind has a fixed set

    def get(self, name: str) -> FieldValue:
        """Return the value of a field; None if the kind has no such field."""
        return dict(self.fields).get(name)

    def changed(self, name: str, value: FieldValue) -> Statement[Kind_co]:
        """Return a copy with the value of one field replaced."""
        return Statement(self.kind, tuple((n, value if n == name else v) for n, v in self.fields))


def say(kind: K, /, **fields: FieldValue) -> Statement[K]:
    """Return a statement of this kind with these fields."""
    return Statement(kind, tuple(fields.items()))


def parts(said: FieldValue) -> list[Statement[str]]:
    """Return a statement and all statements within its fields; an empty list for any other value."""
    if isinstance(said, tuple):
        return [part for value in said for part in parts(value)]
    if not isinstance(said, Statement):
        return []
    return [said, *(part for _, value in said.fields for part in parts(value))]


class Both(NamedTuple):
    """The two sentences of a kind: what a finding is, and how bad it is."""

    first: str
    second: str


State: TypeAlias = Literal["ok", "warning", "problem"]
CheckKind: TypeAlias = Literal[
    # GPU and driver; the first six as `tcprobe.capture.smi` has them
    "smi_missing",
    "smi_silent",
    "smi_failed",
    "driver_mismatch",
    "driver_absent",
    "no_devices",
    "gpu",
    "mig",
    "mig_empty",
    "driver",
    "counters_free",
    "counters_root",
    "counters_admin",
    # frameworks of an interpreter
    "python",
    "python_old",
    "framework",
    "framework_absent",
    "framework_broken",
    "framework_silent",
    "framework_blind",
    "framework_too_new",
    "cupti",
    "cupti_absent",
    # programs, and what they need beside them
    "nvtx",
    "nvtx_mute",
    "nvtx_disabled",
    "nvtx_heard",
    "nvtx_unheard",
    "no_importer",
    "nsys_endless",
    "tool",
    "tool_absent",
    "tool_failed",
    "dlprof_alone",
    "dlprof_before_gpu",
    "dlprof_before_framework",
    "trial",
    "trial_empty",
    "trial_endless",
    "trial_without_gpu",
    "trial_not_launched",
    # the machine
    "cpu",
    "container",
    "disk",
    "disk_low",
    "disk_full",
]


class Check(Struct, frozen=True):
    """What was looked at, and what was seen."""

    about: str  # what the line is of: gpu, driver, tensorflow, nsys ...
    fact: Statement[CheckKind]
    stops: tuple[str, ...] = ()  # names of the captures that record nothing of a GPU for it
    limits: bool = False  # whether something is lost for it, whichever capture records

    def state(self, profiler: str) -> State:
        """Return how it stands for one who records with a capture of that name."""
        return "problem" if profiler in self.stops else "warning" if self.limits else "ok"


Reason = Literal["environment", "only_recording", "being_written", "refused"]


class Cleaned(Struct, frozen=True):
    """A database out of which all that can be taken was taken."""

    path: str
    variables: int  # of the environment, blanked
    printed: int  # texts that the workload printed, blanked
    arguments: int  # words of command lines, which stay


class Left(Struct, frozen=True):
    """A file that holds, or may hold, what is the user's alone."""

    path: str
    reason: Reason
    text: str = ""  # what the system, or SQLite, said


class Redaction(Struct, frozen=True):
    """What became of the files of a run."""

    cleaned: tuple[Cleaned, ...]
    deleted: tuple[str, ...]
    left: tuple[Left, ...]
