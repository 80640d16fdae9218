"""The words of a verdict, of what limits a report, and of the rows of the bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tcprobe import formatting as f
from tcprobe.report.run.words import kind_label
from tcprobe.rules.words import listed, short_name
from tcprobe.schema.screen import AnswerKind, BarOf, LimitKind, RowKind, VerdictWord
from tcprobe.schema.statement import Statement
from tcprobe.schema.waits import HOST_WORK

BASIS_WORDS: Final[Mapping[str, str]] = {
    "counter": "hardware counters",
    "name": "kernel names",
    "shape": "shapes and rates",
    "reported": "the profiler's own report",
    "predicted": "a prediction",
    "measured": "measurement",
    "graph": "the graph",
    "inferred": "inference",
    "user": "your pyproject.toml",
}
OF: Final[Mapping[BarOf, str]] = {
    "step": "the step", "capture": "the time", "kernel_time": "the kernel time", "op_calls": "the calls of ops",
}  # fmt: skip
ROW_WORDS: Final[Mapping[RowKind, str]] = {
    "used": "on Tensor Cores",
    "misaligned": "Tensor Cores, odd sizes",
    "slowly": "Tensor Cores, slowly",
    "off": "could use Tensor Cores",
    "matmul": "matrix ops",
    "layout": "changes of layout",
    "communication": "between GPUs",
    "others": "other kernels",
    "kernels": "kernels",
    "unknown": "Tensor Cores? unknown",
    "copy": "copies and sets",
    "idle": "no kernel or copy",
    "wait": "no kernel",
}
"""What each row of the bar is."""
_KEPT_OFF: Final[Mapping[str | None, str]] = {
    "channels": "too few channels",
    "shape": "odd sizes",
    "shape_required": "odd sizes",
    "library": "the library chose other kernels",
    "tf32": "TF32 was off",
    "tf32_unknown": "TF32 was off, or the library chose so",
    "gpu_unknown": "the GPU is unknown",
}
_SLOWED: Final[Mapping[str | None, str]] = {
    "tc_tiles": "tiles or their last wave are partly empty",
    "tc_small": "products are too small to fill the GPU",
    "tc_memory": "memory bounds them",
    "tc_slow": "below half of the peak",
}
_PRECISIONS: Final[Mapping[str | None, str]] = {
    "fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "bfloat16", "int8": "int8",
}  # fmt: skip


def verdict(word: VerdictWord, said: Statement[AnswerKind]) -> str:
    """Return the verdict as one sentence."""
    reason = sentence(said)
    if word == "WAITING":
        return f"The GPU is WAITING {reason}"
    if word == "NOT USED":
        return f"Tensor Cores are NOT USED: {reason}"
    named = said.get("kernel") is not None or said.get("gpu") is not None  # a name stays as it is
    return f"Tensor Cores: {word}. {reason if named else reason[0].upper() + reason[1:]}"


def sentence(said: Statement[AnswerKind]) -> str:
    """Return why, as a sentence that begins in lower case where it may follow a colon."""
    return _ANSWERS[said.kind](dict(said.fields))


def further(said: Statement[AnswerKind]) -> str:
    """Return what else is true of a run, as a sentence of its own."""
    return _FURTHER[said.kind](dict(said.fields)) if said.kind in _FURTHER else sentence(said)


def _of(fields: dict[str, Any]) -> str:
    return f"{f.whole_percent(fields['pct'])} of {OF[fields['of']]}"


def _no_kernels(fields: dict[str, Any]) -> str:
    return f"{str(fields['reason'] or 'no kernel was recorded').rstrip('.')}."


def _autotuning(fields: dict[str, Any]) -> str:
    many = f" of {fields['of']:,.0f}" if fields["of"] is not None else ""
    pct = f.whole_percent(fields["pct"])
    names = "" if fields["by_op"] else ", by their names"
    return f"a library was trying its kernels{names}: {fields['kernels']:,}{many}, {pct} of the kernel time."


def _start_up(fields: dict[str, Any]) -> str:
    if fields["pct"] is None:
        return "the whole process was recorded, start-up included."
    return f"start-up is inside. Of the whole process, {f.whole_percent(fields['pct'])} of the kernel time is on them."


def _no_products(fields: dict[str, Any]) -> str:
    did = listed(kind_label(kind) for kind in fields["kinds"])
    return f"no matrix multiplication ran, so this is hardly a whole step: {did}."


def _no_matrices(fields: dict[str, Any]) -> str:
    return f"no product of two matrices is known to have run, only {listed(map(kind_label, fields['kinds']))}."


def _nothing(fields: dict[str, Any]) -> str:
    what = listed(kind_label(kind) for kind in fields["kinds"])
    kernel = short_name(str(fields["kernel"])) if fields["kernel"] else ""
    reached = ""
    if fields["low_pct"] is not None and fields["low_pct"] >= BOUND_PCT:
        low, high = (round(fields[name]) for name in ("low_pct", "high_pct"))
        reached = f" Memory bounds it: {low if low == high else f'{low}-{high}'} % of the peak."
    return f"{kernel + ' is ' if kernel else 'these kernels are '}{what}: no matrix product.{reached}"


BOUND_PCT: Final = 60.0  # of a peak; Nsight Compute's own rules take so much for a bound (SOLBottleneck: 60 %)


def _unrepeated(fields: dict[str, Any]) -> str:
    return f"nothing repeats: {f.many(fields['launches'], 'kernel')} in all, none more than twice, as in a start."


def _class_unknown(fields: dict[str, Any]) -> str:
    name, pct = short_name(str(fields["kernel"])), fields["pct"]
    if pct is None or pct < 50.0:
        return "The names of most kernels do not tell."
    return f"{name} is {f.whole_percent(pct)} of the kernel time, and its name does not tell: ncu would."


def _waiting(fields: dict[str, Any]) -> str:
    work, pct = fields["work"], fields["work_pct"]
    if work is None or pct is None:
        return f"{_of(fields)}; the reason was not recorded."
    what = "what was not recorded" if work == "unknown" else HOST_WORK[work]
    if pct >= 99.5:
        return f"{_of(fields)} for {what}."
    part = "mostly" if pct >= 50.0 else f"{f.whole_percent(pct)} of that"
    return f"{_of(fields)}, {part} for {what}."


def _idle_ops(fields: dict[str, Any]) -> str:
    return f"{f.whole_percent(fields['idle_pct'])} of the calls of ops{_using(fields)}."


def _using(fields: dict[str, Any]) -> str:
    using, off = fields["using_pct"], fields["off_pct"]
    if using is None:
        return ""
    nothing = "; no other op could" if off == 0 else ""
    return f".\nOps that use Tensor Cores take {f.whole_percent(using)} of the GPU time at most{nothing}"


def _not_used(fields: dict[str, Any]) -> str:
    precision, cause = _PRECISIONS.get(fields["precision"]), fields["cause"]
    if precision is None:
        return f"{_KEPT_OFF.get(cause, 'no kernel of a matrix op uses them')}."
    every = "every matrix op runs" if fields["all"] else "matrix ops run"
    why = f"; {_KEPT_OFF[cause]}" if cause in _KEPT_OFF else ""
    return f"{every} in {precision}{why}."


def _partly(fields: dict[str, Any]) -> str:
    precision, cause = _PRECISIONS.get(fields["precision"]), fields["cause"]
    if cause is None:
        return f"{f.whole_percent(fields['on_pct'])} of the kernel time is on them."
    why = _KEPT_OFF.get(cause) or precision or "other precisions"
    return f"{f.whole_percent(fields['on_pct'])} of the matrix ops' time is on them. The rest: {why}."


def _slowly(fields: dict[str, Any]) -> str:
    share = "all" if fields["pct"] >= 99.5 else f.whole_percent(fields["pct"])
    return f"{share} of the matrix ops' time is slow: {_SLOWED[fields['cause']]}."


def _every(fields: dict[str, Any]) -> str:
    return "every" if fields["all"] else "nearly every"


_ANSWERS: Final[Mapping[AnswerKind, Callable[[dict[str, Any]], str]]] = {
    "no_gpu": lambda _: "no GPU here. CPU times say nothing of a GPU.",
    "no_kernels": _no_kernels,
    "not_nvidia": lambda fields: f"the GPU is {fields['vendor'] or 'another vendor'}'s, not NVIDIA's.",
    "no_tensor_cores": lambda fields: f"{fields['gpu'] or 'this GPU'} has none.",
    "autotuning": _autotuning,
    "start_up": _start_up,
    "no_products": _no_products,
    "no_matrices": _no_matrices,
    "nothing_multiplies": _nothing,
    "class_unknown": _class_unknown,
    "unrepeated": _unrepeated,
    "waiting": _waiting,
    "busy": lambda fields: f"The GPU is busy {_of(fields)}{BUSY if fields['pct'] >= 75.0 else ''}.",
    "idle_ops": _idle_ops,
    "not_used": _not_used,
    "partly": _partly,
    "misaligned": lambda fields: f"odd sizes slow matrix ops that take {_of(fields)}.",
    "slowly": _slowly,
    "all_used": lambda fields: f"{_every(fields)} op that can use them does: {_of(fields)}.",
}
_FURTHER: Final[Mapping[AnswerKind, Callable[[dict[str, Any]], str]]] = {
    "waiting": lambda fields: f"The GPU waits {_waiting(fields)}",
    "not_used": lambda fields: f"Tensor Cores are not used: {_not_used(fields)}",
    "partly": lambda fields: f"Tensor Cores: {_partly(fields)}",
    "misaligned": lambda fields: f"Tensor Cores: {_ANSWERS['misaligned'](fields)}",
    "slowly": lambda fields: f"Tensor Cores: {_slowly(fields)}",
    "all_used": lambda fields: f"{_every(fields).capitalize()} op that can use Tensor Cores does.",
}
"""What else is true of a run, where that is no sentence of its own."""


BUSY: Final = ", so its kernels decide"


def limit(said: Statement[LimitKind]) -> str:
    """Return what limits a report, in a few words."""
    return _LIMITS[said.kind](dict(said.fields))


def _basis(fields: dict[str, Any]) -> str:
    basis, pct = BASIS_WORDS.get(str(fields["basis"]), str(fields["basis"])), fields["coverage_pct"]
    if pct is None or fields["basis"] == "reported":
        return basis
    if pct < 0.05:
        return f"{basis} tell nothing"
    return f"{basis}, {'all known' if pct >= 99.95 else f'{f.percent(pct)} of the time known'}"


def _steps(fields: dict[str, Any]) -> str:
    count = float(fields["steps"])
    if fields["unusual"]:
        return "one step, and no usual one" if count == 1 else f"{count:,.0f} steps, and no usual ones"
    return "one step, which may include warm-up" if count == 1 else f"{count:,.0f} steps"


PREDICTED: Final = {
    "timed": "predicted, matrix ops alone; a GPU measures it: tcprobe profile there",
    "between": "predicted, matrix ops alone, unaligned convolutions estimated; a GPU measures it",
    "judged": "predicted, matrix ops alone, convolutions estimated; a GPU measures it",
}
"""What a prediction rests on, by the evidence of the costliest product."""
_LIMITS: Final[Mapping[LimitKind, Callable[[dict[str, Any]], str]]] = {
    "basis": _basis,
    "steps": _steps,
    "predicted": lambda fields: PREDICTED.get(str(fields["evidence"]), "predicted"),
    "phase": lambda fields: "phase {phase} of {phases}, steps {first} to {last}".format(**fields),
    "no_steps": lambda fields: (
        "no step marked, start-up left out" if fields["cut"] else "no step marked, start-up may be inside"
    ),
    "no_op_named": lambda _: "the whole process, start-up included, and no op named",
    "op_times": lambda _: "the profiler's times of ops, copies included",
    "whole_process": lambda _: "the whole process, start-up included",
    "chosen_kernels": lambda _: "kernels measured one by one: not times of a step",
    "gpu_unknown": lambda _: "GPU unknown",
    "clocks": lambda fields: (
        "clocks of ranks cannot be compared"
        if fields["residual_ns"] is None
        else f"clocks of ranks agree only to {f.duration(fields['residual_ns'])}"
    ),
    "partial": lambda _: "PARTIAL, the run was cut off",
    "noted": lambda fields: str(fields["message"]),
    "profiler_errors": lambda fields: f"the profiler tells of {f.many(fields['errors'], 'error')} (--all)",
    "no_start_times": lambda _: "how long the GPU waits is unknown",
}
