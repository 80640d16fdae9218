"""TC301: says that the GPU waits, how long, what the host does meanwhile, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run import words
from tcprobe.rules.run.base import GapRow, RunSubject
from tcprobe.rules.run.waiting import LEAST_PCT, paced_ns, told
from tcprobe.schema.advice import WAITING, Advice, Concern
from tcprobe.schema.statement import FieldValue, say
from tcprobe.schema.waits import HOST_WORK, HostWork

DOC: Final = RuleDoc(
    code="TC301",
    name="waiting-gpu",
    summary="The GPU waits for the host during a part of the step.",
    explanation=(
        "While no kernel runs, nothing that makes kernels faster helps: the step gets shorter only where the waiting "
        "does. The end of all waiting saves the idle time of the step at most, and Tensor Cores save at most what "
        "their kernels take, which is little where the GPU is busy for a small part of the step.\n\n"
        "What to do follows from what the host did in the gaps between kernels. The input pipeline: prepare the next "
        "batch while the GPU computes. A copy: keep data on the GPU, or copy ahead of time. Python between calls: put "
        "the whole step into one compiled function. Tracing or compiling: keep shapes the same, and profile after "
        "warm-up. A wait for results: fetch them less often. A wait for other GPUs or processes: balance "
        "the work, and send less, earlier. Many short launches: let a compiler fuse them, or give each more "
        "work. A profile without a record of the host tells how long the GPU waits and not why.\n\n"
        "Stretches too short for a row of their own are the pace at which the host launches kernels: if they are half "
        "of the waiting, they count as that.\n\n"
        f"Less than {LEAST_PCT:g} % of a step is not listed. A profiler slows the host, so that gaps between short "
        "kernels look longer than they are without it."
    ),
    severity="it comes before all that can save less of the step; it counts at most the idle time.",
    bad=(
        "dataset = tf.data.Dataset.list_files(pattern).map(decode).batch(64)\n"
        "for images, labels in dataset:\n    loss = train_step(images, labels)\n    print(float(loss))\n"
    ),
    good=(
        "dataset = tf.data.Dataset.list_files(pattern).map(decode, num_parallel_calls=tf.data.AUTOTUNE)\n"
        "dataset = dataset.batch(64).prefetch(tf.data.AUTOTUNE)\n"
        "for step, (images, labels) in enumerate(dataset):\n    loss = train_step(images, labels)\n"
        "    if step % 100 == 0:\n        print(float(loss))\n"
    ),
    sources=(
        "TensorFlow guide, Optimize TensorFlow GPU performance: the input pipeline first, then one GPU, then fp16",
        "TensorFlow guide, Better performance with the tf.data API: prefetching, parallel mapping, caching",
        "Keras API, Model.compile: steps_per_execution helps small models with a large Python overhead",
        "PyTorch tutorials, Performance Tuning Guide: num_workers, pin_memory",
        "JAX documentation, Asynchronous dispatch: printing an array waits for it",
    ),
)

WAYS: Final[Mapping[HostWork, dict[str | None, str]]] = {
    "input": {
        None: "Prepare the next batches while the GPU computes: prefetch, load in parallel, cache",
        "tensorflow": "Prepare the next batches while the GPU computes: Dataset.prefetch(tf.data.AUTOTUNE), "
        "map(..., num_parallel_calls=tf.data.AUTOTUNE), cache()",
        "pytorch": "Prepare the next batches while the GPU computes: DataLoader(num_workers=..., pin_memory=True)",
    },
    "copy": {
        None: "Copy ahead of the step, in few large copies from pinned memory, or keep the data on the GPU",
        "tensorflow": "Copy ahead of the step (tf.data.experimental.prefetch_to_device), in few large copies, or keep "
        "the data on the GPU",
        "pytorch": "Copy ahead of the step, in few large copies (pin_memory=True, to(device, non_blocking=True)), or "
        "keep the data on the GPU",
        "jax": "Copy ahead of the step (jax.device_put of the next batch), in few large copies, or keep the data on "
        "the GPU",
    },
    "compile": {
        None: "Profile after warm-up; if it still traces or compiles then, keep shapes and Python arguments the same",
        "tensorflow": "Profile after warm-up; if it still traces or compiles then, keep shapes and Python arguments "
        "the same: tf.function(input_signature=...), batches of one size (drop_remainder=True)",
    },
    "python": {
        None: "Do less in Python between calls: compile the whole step, and several steps into one call",
        "tensorflow": "Do less in Python between calls: put the whole step into one tf.function, or "
        "Model.compile(steps_per_execution=...)",
        "pytorch": "Do less in Python between calls: torch.compile, CUDA graphs",
        "jax": "Do less in Python between calls: jax.jit of the whole step, jax.lax.scan over several",
    },
    "communicate": {
        None: "Wait less for other GPUs and processes: balance what each computes, send less and in fewer messages, "
        "and begin to send while the GPU computes",
    },
    "synchronise": {
        None: "Fetch losses and metrics less often: each makes the host wait for the GPU before it launches more",
        "tensorflow": "Fetch losses and metrics less often: each float(), numpy() or print makes the host wait for "
        "the GPU before it launches more",
        "pytorch": "Fetch losses and metrics less often: each item(), cpu() or print makes the host wait for the GPU "
        "before it launches more",
        "jax": "Fetch losses and metrics less often: each float() or print makes the host wait for the GPU before it "
        "launches more",
    },
    "launch": {
        None: "Launch fewer and longer kernels: let a compiler fuse them, or take a larger batch",
        "tensorflow": "Launch fewer and longer kernels: XLA (jit_compile=True), a larger batch, or "
        "Model.compile(steps_per_execution=...)",
        "pytorch": "Launch fewer and longer kernels: torch.compile, CUDA graphs, or a larger batch",
        "jax": "Launch fewer and longer kernels: jax.jit of the whole step, or a larger batch",
    },
    "unknown": {
        None: "Find out what the GPU waits for, most often the input pipeline or Python: time the input pipeline "
        "alone, and record the host's work with the kernels",
    },
}
"""What to do about each kind of work of the host, by framework."""


COMPILED: Final[dict[str | None, str]] = {
    None: "Launch fewer and longer kernels: a larger batch, or several steps in one call",
    "tensorflow": "Launch fewer and longer kernels: a larger batch, or Model.compile(steps_per_execution=...)",
    "jax": "Launch fewer and longer kernels: a larger batch, or jax.lax.scan over several steps",
}
"""What to do about launches where XLA compiled the step already."""


MOST_REPORTED_PCT: Final = 99.0
"""Above it a share that DLProf reports, with one decimal, tells less than two digits of how long the GPU is busy."""


def _way(work: HostWork, fields: Mapping[str, Any]) -> str:
    ways = COMPILED if work == "launch" and fields["compiled"] else WAYS[work]
    return words.said(ways, fields["framework"])


def _says(fields: Mapping[str, Any]) -> Template:
    order = _way(fields["work"], fields)
    if fields["also"]:
        order += f". {_way(fields['also'], fields)}"
    return order, f"{_waits(fields)}{_gap(fields)}{_meanwhile(fields)}"


def _waits(fields: Mapping[str, Any]) -> str:
    if fields["length"] == "capture":
        return "the GPU waits {idle_ns!d} of the {step_ns!d} captured, {idle_pct!p} (no step's length is known)"
    waits = "the GPU waits {idle_ns!d} of a step of {step_ns!d}, {idle_pct!p}"
    told = fields["length"] != "reported" or fields["idle_pct"] <= MOST_REPORTED_PCT
    return f"{waits}: it is busy {{busy_ns!d}}" if told else waits


def _gap(fields: Mapping[str, Any]) -> str:
    if fields["gap_ns"] is None:
        return ""
    ends = "ends with {before!n}" if fields["before"] else "lasts to the end"
    longer = " under the profiler" if fields["gap_ns"] > fields["idle_ns"] else ""  # which slowed the host
    return f"; the longest gap{longer}, {{gap_ns!d}}, {ends}"


def _meanwhile(fields: Mapping[str, Any]) -> str:
    work = HOST_WORK[fields["work"]]
    if fields["work"] == "unknown":
        return "; the profile does not tell " + ("when" if fields["gap_ns"] is None else "what the host did meanwhile")
    most = f"; {{work_pct!p}} of the waiting goes to {work}"
    if fields["work"] == "launch" and fields["in_short"]:
        most += ", in short gaps"
    elif fields["host_op"] and fields["host_ns"]:
        most += " (longest: {host_op!n}, {host_ns!d})"
    return most + (f", {{also_pct!p}} to {HOST_WORK[fields['also']]}" if fields["also"] else "")


SAYS: Final[Says] = {"feed_gpu": _says}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where the GPU waits for more than a few percent of a step."""
    waiting = subject.waiting
    if waiting is None or waiting.idle_pct < LEAST_PCT:
        return
    yield Advice(
        DOC.code,
        say(
            "feed_gpu",
            framework=subject.framework,
            compiled=subject.compiled,
            idle_ns=waiting.idle_ns,
            idle_pct=waiting.idle_pct,
            busy_ns=waiting.busy_ns,
            step_ns=waiting.step_ns,
            length=waiting.length,
            **_host(subject),
            **_longest_gap(subject.gaps),
        ),
        Concern(waiting.idle_pct, "step", None, waiting.idle_ns, waiting.step_ns, waiting.length, "idle"),
        draws_on=frozenset([WAITING]),
    )


def _host(subject: RunSubject) -> dict[str, FieldValue]:
    """Return what the host did in most of the waiting that is told, and in much of the rest."""
    works = told(subject)
    work, pct = works[0] if works else ("unknown", None)
    also, also_pct = works[1] if len(works) > 1 else (None, None)
    worst = next((gap for gap in subject.gaps if gap["host_work"] == work), None)
    launched = sum(float(gap["duration_ns"] or 0) for gap in subject.gaps if gap["host_work"] == "launch")
    return {
        "work": work, "work_pct": pct, "also": also, "also_pct": also_pct,
        "host_op": worst["host_op"] if worst else None, "host_ns": worst["host_ns"] if worst else None,
        "in_short": paced_ns(subject) > launched and work == "launch",
    }  # fmt: skip


def _longest_gap(gaps: Sequence[GapRow]) -> dict[str, FieldValue]:
    return {"gap_ns": gaps[0]["duration_ns"], "before": gaps[0]["before"]} if gaps else {"gap_ns": None, "before": None}
