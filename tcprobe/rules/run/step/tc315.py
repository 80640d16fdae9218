"""TC315: finds runs whose batch is small for the GPU, and for which there is memory to make it larger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run.base import RunSubject
from tcprobe.rules.run.facts import MemoryUse
from tcprobe.rules.run.waiting import told
from tcprobe.schema.advice import WAITING, Advice
from tcprobe.schema.statement import FieldValue, say
from tcprobe.schema.waits import HostWork, Waiting

MOST_USED_PCT: Final = 50.0  # of the memory: beyond that twice the batch may not fit
LEAST_SMALL_PCT: Final = 10.0  # of the kernel time, in products that are too small
LEAST_IDLE_PCT: Final = 25.0  # of the step: below that a larger batch gains little by waiting less
PER_STEP: Final[tuple[HostWork, ...]] = ("launch", "python")
"""What the host does once a step, whatever the batch."""

DOC: Final = RuleDoc(
    code="TC315",
    name="batch-leaves-memory",
    summary="The GPU has memory for a larger batch, and too little to do in a step.",
    explanation=(
        "Products that are too small to fill the GPU, and a host that launches or runs Python for most of a step, cost "
        "nearly the same with twice the batch. A larger batch spreads that over more samples: throughput rises, each "
        "step takes longer. It changes the training too: the learning rate wants to follow.\n\n"
        "This counts only where the peak of the workload's own allocations is known and under half of the GPU's "
        "memory. What a framework reserves tells nothing: TensorFlow takes nearly all memory at once, whatever it "
        "needs. A step that waits for its input, for copies or for other processes gains nothing by a larger batch "
        "and is not listed for that. Memory alone is no reason."
    ),
    severity="it counts the time of such products and of such waiting, at most, per sample as it is now.",
    bad="dataset = dataset.batch(32)\n",
    good="dataset = dataset.batch(256)\n",
    sources=(
        "NVIDIA Deep Learning Performance, Matrix Multiplication Background, section Wave Quantization: products must "
        "fill all SMs",
        "TensorFlow API, tf.config.experimental.get_memory_info: the peak of the allocator",
    ),
)


def _says(fields: Mapping[str, Any]) -> Template:
    small = "products too small to fill the GPU take {small_ns!d}" if fields["small_ns"] else ""
    waits = "the GPU waits {waiting_ns!d} for what the host does once a step" if fields["waiting_ns"] else ""
    why = " and ".join(part for part in (small, waits) if part)
    return (
        "Take a larger batch, as long as memory lasts and training bears it",
        f"the workload holds {{used_gb:.1f}} of {{total_gb:.1f}} GB at most, {{free_gb:.1f}} GB are free; {why}: at "
        "most {at_most_ns!d} of a step of {step_ns!d}, {at_most_pct!p}, for the same number of samples",
    )


SAYS: Final[Says] = {"larger_batch": _says}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where memory is free, and products are too small or the host is busy once a step."""
    memory, waiting = subject.facts.memory, subject.waiting
    if (
        memory is None
        or memory.used_pct >= MOST_USED_PCT
        or waiting is None
        or waiting.length == "capture"
        or subject.tuning is not None
    ):
        return
    small = _small(subject)
    waits = 0.0 if small else _waits(subject, waiting)  # the item on waiting bounds that by itself
    if small or waits:
        yield _item(subject, memory, small, waits)


def _item(subject: RunSubject, memory: MemoryUse, small: float, waits: float) -> Advice:
    concern = subject.of_step(small + waits, "small batch")
    said = dict[str, FieldValue](
        used_gb=memory.peak_bytes / 1e9,
        total_gb=memory.total_bytes / 1e9,
        free_gb=(memory.total_bytes - memory.peak_bytes) / 1e9,
        small_ns=small,
        waiting_ns=waits,
        at_most_ns=concern.at_most_ns,
        at_most_pct=concern.share_pct,
        step_ns=concern.step_ns,
    )
    return Advice(DOC.code, say("larger_batch", **said), concern, draws_on=frozenset([WAITING] if waits else ()))


def _small(subject: RunSubject) -> float:
    """Return the time of a step in products that are too small; 0 where that is little or unknown."""
    small = subject.facts.small_ns
    if subject.kernel_ns <= 0 or 100.0 * small < LEAST_SMALL_PCT * subject.kernel_ns:
        return 0.0
    return min(subject.in_step(small) or 0.0, subject.busy_ns)


def _waits(subject: RunSubject, waiting: Waiting) -> float:
    """Return the time of a step that the GPU waits for work that the host does once a step; 0 where that is little."""
    if waiting.idle_pct < LEAST_IDLE_PCT:
        return 0.0
    return waiting.idle_ns * min(1.0, sum(pct for work, pct in told(subject) if work in PER_STEP) / 100.0)
