"""Events of a trace as columns: what ran on the GPUs, the calls that launched it, ops, modules and frames of Python.

Of collectives of NCCL it tells which, among how many ranks, how large, and how long nothing hid them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from tcprobe.grouping import count_by, covered_until, distinct_numbers, merged, positions_in, sum_by
from tcprobe.jsonfile import whole
from tcprobe.readers.arrays import Ints, distinct_rows
from tcprobe.readers.kineto.events import Args, Counted, Event, Trace, read_events
from tcprobe.readers.rows import Codes, Texts
from tcprobe.schema.columns import FloatArray, Names, Table, Value
from tcprobe.schema.tables import MESSAGES

# Categories in lower case: ``Kernel``, ``Memcpy``, ``Runtime`` and ``Operator`` are those of Kineto before 2021-12.
KINDS: Final = {
    "kernel": "kernels",
    **dict.fromkeys(("gpu_memcpy", "memcpy", "gpu_memset", "memset"), "memory"),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "runtime"), "calls"),
    **dict.fromkeys(("cpu_op", "operator", "user_annotation"), "ops"),
    "python_function": "frames",
    "overhead": "overheads",
}
LONGEST_US: Final = 1e11  # of a capture: a day
_NUMBERS: Final = {
    "kernels": ("device", "stream", "correlation", "registers", "shared", "graph"),
    "memory": ("device", "stream", "correlation", "size"),
    "calls": ("correlation",),
    "ops": ("sequence",),
}
_TEXTS: Final[dict[str, dict[str, Callable[[Args], str]]]] = {
    "kernels": {
        "grid": lambda args: _size(args.grid),
        "block": lambda args: _size(args.block),
        "message": lambda args: _message(args),
    },
    "ops": {
        "dims": lambda args: _text(args.dims) or _text(args.old_dims),
        "types": lambda args: _text(args.types),
        "strides": lambda args: _text(args.strides),
        "concrete": lambda args: _text(args.concrete),
        "stack": lambda args: _text(args.stack),
        "modules": lambda args: _text(args.modules),
    },
}
BETWEEN: Final = "\0"
"""What stands between the parts of the text `message` of a kernel; no white space, which texts lose at their ends."""
_NO_ARGS: Final = Args()
Thread: TypeAlias = tuple[int | str | None, int | str | None]
"""Process and thread, as a trace names them."""


class Part(Struct):
    """The events of one kind: times in ns from the start of the capture, and what else is read of them."""

    start: Ints
    end: Ints
    thread: Ints  # place in `Recording.threads`
    texts: dict[str, Names]
    numbers: dict[str, FloatArray]  # NaN where the event does not say
    odd: int = 0  # events that were left out: their times cannot be

    @property
    def rows(self) -> int:
        return len(self.start)

    def take(self, index: NDArray[Any]) -> Part:
        """Return some events, by position or mask."""
        texts = {name: names.take(index) for name, names in self.texts.items()}
        numbers = {name: values[index] for name, values in self.numbers.items()}
        return Part(self.start[index], self.end[index], self.thread[index], texts, numbers, self.odd)


class Recording(Struct):
    """One trace."""

    path: Path
    parts: dict[str, Part]  # by the kinds of `KINDS`
    threads: list[tuple[str, str]]  # process and thread, as named in the file
    beside: Trace  # its events are among the parts
    counted: list[Counted]


class _Collected:
    """The events of one kind, block by block."""

    def __init__(self, kind: str) -> None:
        self._numbers, self._told = _NUMBERS.get(kind, ()), _TEXTS.get(kind, {})
        self._texts = Texts(("name", *self._told))
        self._times: list[NDArray[np.float64]] = []
        self._values: list[NDArray[np.float64]] = []
        self._threads: list[Ints] = []

    def add(self, events: Sequence[Event], threads: Codes[Thread]) -> None:
        """Append events."""
        self._times.append(np.array([[event.ts for event in events], [event.dur for event in events]]))
        self._threads.append(np.array([threads[event.pid, event.tid] for event in events], np.int64))
        args = [event.args or _NO_ARGS for event in events]
        values = [[getattr(one, name) for one in args] for name in self._numbers]
        self._values.append(np.array(values, np.float64).reshape(len(values), len(events)))
        self._texts.add([[event.name for event in events], *([*map(told, args)] for told in self._told.values())])

    def times(self) -> NDArray[np.float64]:
        """Return when they began, in microseconds."""
        return np.concatenate([np.zeros(0), *(times[0] for times in self._times)])

    def part(self, origin: float) -> Part:
        """Return them as columns; times from `origin`, in microseconds."""
        start, spent = np.concatenate([np.zeros((2, 0)), *self._times], axis=1)
        start = start - origin
        sane = (np.abs(start) < LONGEST_US) & (spent >= 0) & (spent < LONGEST_US)
        start, spent = np.where(sane, start, 0), np.where(sane, spent, 0)
        begin = np.rint(start * 1000).astype(np.int64)
        values = np.concatenate([np.zeros((len(self._numbers), 0)), *self._values], axis=1)
        values = np.where((values >= 0) & (values < 1 << 53), values, np.nan)
        whole = Part(
            begin,
            begin + np.rint(spent * 1000).astype(np.int64),
            np.concatenate([np.zeros(0, np.int64), *self._threads]),
            self._texts.names(),
            dict(zip(self._numbers, values, strict=True)),
        )
        part = whole if sane.all() else whole.take(sane)
        part.odd = int(np.count_nonzero(~sane))
        return part


def _text(raw: Raw) -> str:
    return str(raw, "utf-8", "replace") if len(raw) else ""


def _message(args: Args) -> str:
    """Return what PyTorch says of a kernel of NCCL, in one text; empty of other kernels."""
    if not args.collective:
        return ""
    numbers = ("" if one is None else f"{one:.0f}" for one in (args.group_size, args.sent, args.received))
    collective = args.collective.replace(BETWEEN, " ")
    named = (collective, _plain(args.dtype), _plain(args.group), _plain(args.group_about))
    return BETWEEN.join((*named, *numbers))


def _plain(raw: Raw) -> str:
    return _text(raw).strip('"').replace(BETWEEN, " ")


def _size(sizes: list[int] | None) -> str:
    return ",".join(map(str, sizes)) if sizes else ""


def read_recording(path: Path) -> Recording:
    """Read a trace.

    Raises:
        InputError: it cannot be read, is no trace, is cut off or damaged.
    """
    collected = {kind: _Collected(kind) for kind in dict.fromkeys(KINDS.values())}
    threads, beside, counted = Codes[Thread](), Trace(), list[Counted]()
    for some in read_events(path, counted):
        if isinstance(some, Trace):
            beside, some = some, some.events
        by: dict[str | None, list[Event]] = defaultdict(list)
        for event in some:
            if event.ph == "X":
                by[event.cat].append(event)
        for category, events in by.items():
            kind = KINDS.get((category or "").lower())
            if kind in collected:
                collected[kind].add(events, threads)
    beside.events = []
    began = np.concatenate([one.times() for one in collected.values()])
    began = began[np.abs(began - np.median(began)) < LONGEST_US] if len(began) else began
    origin = float(np.floor(began.min())) if len(began) else 0.0
    parts = {kind: one.part(origin) for kind, one in collected.items()}
    return Recording(path, parts, [(str(process), str(thread)) for process, thread in threads], beside, counted)


def calls_of(calls: Part, ran: Part) -> Ints:
    """Return the call that launched each kernel or copy, -1 where none was recorded: they share a correlation id."""
    order = np.argsort(calls.start, kind="stable")
    ids = _correlation(calls)[order]
    named = ids > 0
    distinct, first = np.unique(ids[named], return_index=True)
    place = positions_in(_correlation(ran), distinct)
    rows = np.append(order[named][first], -1)
    return rows[place].astype(np.int64)


def _correlation(part: Part) -> Ints:
    """Return the correlation ids; -1 where there is none that CUPTI gives (32 bits)."""
    ids = part.numbers["correlation"]
    return np.where((ids > 0) & (ids < 1 << 32), ids, -1).astype(np.int64)


NAMED: Final = re.compile(r"nccl(?:Dev)?Kernel_?([A-Za-z]+)")
"""Kernels of NCCL, by the name of the collective in them."""
BYTES: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
}
"""Bytes of an element by the names of c10::ScalarType, with which PyTorch tells the type of a message."""


def read_messages(ran: Part) -> Table:
    """Return the table `messages` of the kernels of a trace; empty where none is NCCL's."""
    mine = ran.texts["name"].each(lambda name: NAMED.match(name) is not None, False).astype(bool)
    rows = np.flatnonzero(mine)
    told, kernel = ran.texts["message"].take(rows), ran.texts["name"].map(_collective).take(rows)
    first, group = distinct_rows(told.ids, kernel.ids)
    spent, hidden = (ran.end - ran.start)[rows], _hidden(ran, mine)[rows]
    sums, alone = (sum_by(group, values, len(first)).tolist() for values in (spent, spent - hidden))
    calls = count_by(group, len(first)).tolist()
    made: list[dict[str, Value]] = [
        {
            **_described(told[row] or "", kernel[row] or ""),
            "launches": calls[number],
            "sum_ns": sums[number],
            "exposed_ns": alone[number],
        }
        for number, row in enumerate(first.tolist())
    ]
    return Table.from_rows(MESSAGES, sorted(made, key=lambda row: (-int(row["sum_ns"] or 0), str(row))))


def _collective(kernel: str) -> str | None:
    found = NAMED.match(kernel)
    return found[1].lower() if found else None


def _described(told: str, kernel: str) -> dict[str, Value]:
    """Return what the program said of a message; of a trace that does not tell, the kernel's name alone says which."""
    name, dtype, group, about, size, sent, received = told.split(BETWEEN) if told else ("",) * 7
    each = BYTES.get(dtype)
    return {
        "collective": name or kernel,
        "group": f"{group} ({about})" if about else group or None,
        "group_size": whole(size),
        "dtype": dtype or None,
        **{
            key: None if each is None or (count := whole(text)) is None else count * each
            for key, text in (("sent_bytes", sent), ("received_bytes", received))
        },
    }


def _hidden(ran: Part, mine: NDArray[np.bool_]) -> Ints:
    """Return the time of each kernel in which another one, that is none of NCCL's, ran on its GPU."""
    hidden, device = np.zeros(ran.rows, np.int64), ran.numbers["device"]
    for number in distinct_numbers(device[mine].astype(np.int64)).tolist():
        here = device == number
        others, rows = np.flatnonzero(here & ~mine), np.flatnonzero(here & mine)
        if not len(others):
            continue
        start, end = merged(ran.start[others], ran.end[others])
        covered = [covered_until(ran_at[rows], start, end) for ran_at in (ran.start, ran.end)]
        hidden[rows] = covered[1] - covered[0]
    return hidden
