"""The state of the GPUs around and in a run: clocks, power, temperature, what holds the clocks down, who else is there.

One process of nvidia-smi tells it from outside the workload for as long as that runs; docs/run-folder.md has the keys.
"""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from statistics import median_low
from typing import Any, Final, NamedTuple

from tcprobe.capture import smi

FIRST_SECONDS: Final = 3.0  # that a run waits for the first answer, at most
LAST_SECONDS: Final = 5.0  # that is waited for the answer after it
PERIOD_MS: Final = 500
MOST_SAMPLES: Final = 200_000  # of all GPUs: a day of one
FIELDS: Final = ("timestamp", "index", "uuid", "name", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
FURTHER: Final = (
    ("ecc.errors.uncorrected.volatile.total", "clocks_event_reasons.active"),
    ("ecc.errors.uncorrected.volatile.total", "clocks_throttle_reasons.active"),  # its name before driver 535
    (),
)
"""What is asked besides, the first that a driver knows."""
REASONS: Final = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "temperature (driver)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""What holds clocks down, by the bits of ``clocks_event_reasons.active``; idling and clocks that were set do not.

Source: NVML API Reference, nvmlClocksEventReasons.
"""


class Sample(NamedTuple):
    """What one GPU is in at one moment; None where the driver does not say."""

    at: float  # seconds since the epoch
    gpu: str  # UUID
    sm_mhz: float | None
    memory_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    errors: float | None  # ECC errors that could not be corrected, since the driver was loaded
    reasons: int | None  # bits of `REASONS`


class Card(NamedTuple):
    """A GPU of this machine."""

    number: int  # of nvidia-smi
    uuid: str
    name: str


class Watch:
    """Samples the GPUs in a thread from `start` to `stop`; without nvidia-smi it has nothing.

    Args:
        direct: whether nothing stands between this machine's GPUs and the workload that may hide some (a container).
        own: number of this process, where the workload runs in it; else None.
    """

    def __init__(self, direct: bool = True, own: int | None = None) -> None:
        self.direct, self._own = direct, own
        self.samples: list[Sample] = []
        self.cards: dict[str, Card] = {}
        self.began = self.ended = 0.0  # seconds since the epoch
        self.others: list[Counter[str] | None] = []  # processes on each GPU, by UUID, before and after
        self._fields: tuple[str, ...] = ()
        self._ready, self._over = threading.Event(), threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Watch:
        """Begin, and wait until the state before the run is known, as far as that does not take long."""
        if smi.is_there():
            self._thread.start()
            self._ready.wait(FIRST_SECONDS)
        self.began = datetime.now().timestamp()
        return self

    def stop(self) -> Watch:
        """End, and take the state after the run."""
        self.ended = datetime.now().timestamp()
        self._over.set()
        if self._process is not None:
            self._process.kill()
        if self._fields:
            self._thread.join(LAST_SECONDS)
            self._take(smi.query(self._fields, LAST_SECONDS).rows)
            self.others.append(self._processes())
        return self

    def _run(self) -> None:
        for further in FURTHER:
            answer = smi.query(fields := (*FIELDS, *further), FIRST_SECONDS)
            if smi.UNKNOWN_FIELD not in answer.text:
                break
        self._take(answer.rows)
        if answer.rows and not self._over.is_set():
            self.others.append(self._processes())
            self._fields = fields
        self._ready.set()
        if self._fields and (process := smi.stream(self._fields, PERIOD_MS)) is not None:
            with process:
                self._process = process
                for line in process.stdout or ():
                    if self._over.is_set() or len(self.samples) >= MOST_SAMPLES:
                        break
                    self._take([smi.divided(line)])
                process.kill()

    def _take(self, rows: Iterable[Sequence[str]]) -> None:
        for row in rows:
            if len(row) < len(FIELDS) or not row[1].isdigit():
                continue
            when, index, uuid, name, *values = row
            with suppress(ValueError):
                at = datetime.strptime(when, "%Y/%m/%d %H:%M:%S.%f").timestamp()
                sm, memory, power, heat, errors = map(_number, (*values, "")[:5])
                reasons = _bits(values[5]) if len(values) > 5 else None
                self.samples.append(Sample(at, uuid, sm, memory, power, heat, errors, reasons))
                self.cards.setdefault(uuid, Card(int(index), uuid, name))

    def _processes(self) -> Counter[str] | None:
        """Return how many processes other than this one compute on each GPU; None where that is not told.

        In a container this one may be there under another number.
        """
        answer, own = smi.compute_processes(LAST_SECONDS), str(self._own)
        if answer.failure or (self._own is not None and all(pid != own for _, pid in answer.rows)):
            return None
        return Counter(uuid for uuid, pid in answer.rows if pid != own)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # [N/A], [Not Supported], [Unknown Error]
        return None


def _bits(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None


def states_of(watch: Watch | None, window: Any, chosen: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """Return the states of the GPUs of a run, for run.json; None where nothing told any.

    Args:
        watch: that has stopped.
        window: of probe.json.
        chosen: the variables of the workload that say which GPUs it sees.
    """
    if watch is None or not watch.samples:
        return None
    bounds = window.get("wall_s") if isinstance(window, dict) else None
    begun, over = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
    ordinals = _ordinals(list(watch.cards.values()), chosen if watch.direct else {"CUDA_VISIBLE_DEVICES": "?"})
    states = []
    for card in sorted(watch.cards.values()):
        if ordinals and card.uuid not in ordinals:
            continue
        mine = [sample for sample in watch.samples if sample.gpu == card.uuid]
        run = [sample for sample in mine if watch.began <= sample.at <= watch.ended]
        inside = [s for s in run if begun is not None and begun <= s.at <= (over or watch.ended)]
        errors = [sample.errors for sample in mine if sample.errors is not None]
        states.append({
            "index": card.number,
            "name": card.name,
            "device": ordinals.get(card.uuid),
            "other_processes": _most(watch.others, card.uuid),
            "uncorrected_errors": _grown(errors),
            "before": _state([sample for sample in mine if sample.at < watch.began][-1:]),
            "window": _state(inside),
            "run": _state(run),
            "after": _state([sample for sample in mine if sample.at > watch.ended][-1:]),
        })  # fmt: skip
    return states


def _most(counted: Iterable[Counter[str] | None], uuid: str) -> int | None:
    """Return how many processes were on a GPU when the workload was not; None where that was not told both times."""
    counts = [None if one is None else one[uuid] for one in counted]
    told = [count for count in counts if count is not None]
    return max(told) if len(told) == 2 else None


def _grown(counts: Sequence[float]) -> float | None:
    """Return by how much a counter grew; None where one moment alone is known, or the driver was loaded anew."""
    grown = counts[-1] - counts[0] if len(counts) > 1 else -1.0
    return grown if grown >= 0 else None


def _state(samples: Sequence[Sample]) -> dict[str, Any] | None:
    """Return medians, the highest temperature, and in which percentage of the samples each reason held clocks down."""
    if not samples:
        return None
    heat = [sample.temperature_c for sample in samples if sample.temperature_c is not None]
    told = [sample.reasons for sample in samples if sample.reasons is not None]
    counts = {name: sum(1 for reasons in told if reasons & bit) for bit, name in REASONS.items()}
    return {
        "samples": len(samples),
        "sm_clock_mhz": _median(sample.sm_mhz for sample in samples),
        "memory_clock_mhz": _median(sample.memory_mhz for sample in samples),
        "power_w": _median(sample.power_w for sample in samples),
        "temperature_c": max(heat, default=None),
        "held_down_pct": {name: 100.0 * n / len(told) for name, n in counts.items() if n} if told else None,
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median_low(known) if known else None


def _ordinals(cards: Sequence[Card], chosen: Mapping[str, str]) -> dict[str, int]:
    """Return by UUID the ordinal by which a workload knows each GPU that it sees; empty where that is not certain.

    CUDA puts the fastest first, nvidia-smi goes by the bus: their numbers are the same where all are of one model.
    """
    listed = chosen.get("CUDA_VISIBLE_DEVICES")
    ordered = sorted(cards)
    alike = len({card.name for card in cards}) == 1 or chosen.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if listed is None:
        return {card.uuid: place for place, card in enumerate(ordered)} if alike else {}
    found: list[str] = []
    for word in (part.strip() for part in listed.split(",")):
        named = [card.uuid for card in cards if word.startswith("GPU-") and card.uuid.startswith(word)]
        numbered = [card.uuid for card in cards if alike and word.isdigit() and card.number == int(word)]
        found += named or numbered
    if len(found) == len(listed.split(",")) == len(set(found)):
        return {uuid: place for place, uuid in enumerate(found)}
    whole = len(cards) == 1 and listed.strip() not in ("", "-1")  # an instance of MIG, or a name of another form
    return {cards[0].uuid: 0} if whole else {}
