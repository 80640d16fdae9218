"""What a report is of: the profile, what recorded it, its GPUs, the steps that count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from tcprobe import formatting as f
from tcprobe.hardware import DEFAULT_TARGET
from tcprobe.report.run.words import counted_phase, start_text, step_text, unit_text
from tcprobe.rules.words import FRAMEWORKS, framework_of, listed
from tcprobe.schema.columns import Row
from tcprobe.schema.finding import Range
from tcprobe.schema.profile import GradientLoss, LossScale, LossScaleNeed, Metadata, Policy, Profile, Window
from tcprobe.schema.screen import Bar

UNLIKE: Final = 0.1  # of a step, between the shorter and the longer ones: from here on both are told
DLPROF_REPORTS = {"dlprof_csv": "CSV reports", "dlprof_json": "JSON reports", "dlprof_database": "database"}


def name_of(profile: Profile) -> str:
    """Return what a profile is called: the last part of its path, or the command of the run."""
    meta = profile.metadata
    more = f" and {len(meta.paths) - 1} more" if len(meta.paths) > 1 else ""
    return f"{PurePath(meta.paths[0]).name}{more}" if meta.paths else ""


def recorded(profile: Profile, bar: Bar | None, lengths: bool = True) -> str:
    """Return what recorded a profile, and how much of it counts: steps, with `lengths`, or the time captured."""
    return ", ".join(text for text in (_recorder(profile), _counted(profile, bar, lengths)) if text)


def _recorder(profile: Profile) -> str:
    if profile.metadata.format != "xplane":
        return (profile.metadata.profiler or "").partition(" (build")[0]
    told = (str(item.says.get("framework")) for item in profile.advice)
    framework = framework_of(profile.metadata.framework) or next(filter(None, map(framework_of, told)), None)
    return f"{FRAMEWORKS[framework]}'s profiler" if framework else "XSpace profile"


def _counted(profile: Profile, bar: Bar | None, lengths: bool) -> str:
    steps, waiting = profile.counted_steps or profile.summed_steps, profile.waiting
    if bar is not None and bar.of == "kernel_time":
        kernels = profile.value("kernels")
        return "" if kernels is None else f"{kernels:,.0f} launch{'es' * (kernels != 1)}"
    step_ns = waiting.step_ns if waiting is not None else profile.value("step_time_ns")
    if waiting is not None and waiting.length == "capture":
        return f.duration(step_ns)
    if steps is None or step_ns is None:
        return ""
    where = " on the CPU" if profile.metadata.gpu_used is False else ""
    if not lengths:
        return f"{f.many(int(steps), 'step')}{where}"
    if steps == 1:
        return f"1 step{where} of {f.duration(step_ns)}"
    row = profile.figure("step_time_ns")
    low, high = (float((row and row[end]) or step_ns) for end in ("low", "high"))
    if high - low < UNLIKE * step_ns:
        return f"{steps:,.0f} steps{where}, {f.duration(step_ns)} each"
    return f"{steps:,.0f} steps{where}, {f.duration(step_ns)} ({f.range_text(Range(low, step_ns, high))})"


def gpus(profile: Profile) -> str:
    """Return the GPUs by name, with how many there are of each."""
    kinds: dict[str, int] = {}
    for row in profile.require("devices").rows():
        name = str(row["name"] or f"{row['vendor'] or ''} GPU, name unknown".lstrip())
        name += " (inferred)" if row["name_basis"] == "inferred" else ""
        kinds[name] = kinds.get(name, 0) + 1
    return "; ".join(f"{count} x {name}" if count > 1 else name for name, count in kinds.items()) or _gpus(profile)


def abilities(profile: Profile) -> str:
    """Return whether the GPUs have Tensor Cores, which of several ran, the precision and XLA, as far as known."""
    rows = list(profile.require("devices").rows())
    cores = {str(row["tensor_cores"]) for row in rows if not row["vendor"] or str(row["vendor"]).lower() == "nvidia"}
    ran = [str(row["device"]) for row in rows if row["state"] == "active"]
    some = f"only {'GPU ' * (len(ran) == 1)}{listed(ran)} ran kernels" if 0 < len(ran) < len(rows) else ""
    has = {frozenset({"yes"}): "has Tensor Cores", frozenset({"no"}): "no Tensor Cores"}.get(frozenset(cores), "")
    return ", ".join(text for text in (has if not some else "", some, _precision(profile.metadata)) if text)


def facts(profile: Profile) -> list[tuple[str, str]]:
    """Return what was profiled as (label, text) pairs, without unknown facts."""
    meta = profile.metadata
    found = [
        ("profile", _place(meta)),
        ("recorded by" if _profiler(meta) else "ran with" if meta.framework else "ran", _about(meta)),
        ("command", " ".join(meta.command)),
        ("GPU", _gpus(profile)),
        ("precision", _precision(meta)),
        ("window", _window(profile, meta.window)),
        ("start-up", start_text(profile)),
        ("steps", step_text(profile)),
        ("repeats", unit_text(profile)),
        ("judged for", _target(profile)),
    ]
    return [(label, text) for label, text in found if text]


def _place(meta: Metadata) -> str:
    more = f" and {len(meta.paths) - 1} more" if len(meta.paths) > 1 else ""
    name = f"{meta.paths[0]}{more}" if meta.paths else ""
    return f"{name} (PARTIAL: the run was cut off)".strip() if meta.partial else name


def _profiler(meta: Metadata) -> str:
    return ", ".join(word for word in (meta.profiler, DLPROF_REPORTS.get(meta.format)) if word)


def _about(meta: Metadata) -> str:
    """Return what recorded the profile, which framework ran, and where, without unknown facts."""
    framework = meta.framework or ""
    for name in FRAMEWORKS.values():
        framework = re.sub(rf"^{name}\b", name, framework, flags=re.IGNORECASE)
    words = (_profiler(meta), framework, meta.host and f"on {meta.host}")
    return ", ".join(word for word in words if word)


def _target(profile: Profile) -> str:
    """Return the GPU that a run without one is judged for, and say so if it is only the default."""
    if profile.metadata.target_gpu is None or profile.metadata.gpu_used is not False:
        return ""
    target = profile.metadata.target_gpu
    default = target == DEFAULT_TARGET and profile.metadata.run.get("target_gpu") is None
    return f"{target} ({'the default: ' if default else ''}--target-gpu chooses)"


def _precision(meta: Metadata) -> str:
    xla = {True: "XLA on", False: "XLA off", None: None}[meta.xla]
    if xla and meta.policy is not None and (by := _CLUSTERED_BY.get(meta.policy.clustered_by)):
        xla += f" ({by})"
    return ", ".join(x for x in (*_policy(meta), xla) if x)


_CLUSTERED_BY: Final[dict[str | None, str]] = {"script": "set by the script", "environment": "set by TF_XLA_FLAGS"}


def _policy(meta: Metadata) -> Iterator[str]:
    """Yield in what the run computes, and who set that; nothing where nobody did."""
    policy, asked = meta.policy or Policy(), meta.precision
    others = {name: count for name, count in policy.layers.items() if name != policy.name}
    name = meta.computes_in or (policy.name if others else None)
    if name is not None and others:
        several = {name: policy.layers.get(name, 0), **others}
        counts = " and ".join(f"{one} in {count}" for one, count in several.items() if count)
        name = f"{counts} of {sum(several.values())} layers"
    if name is not None:
        yield name
    if policy.of_script not in (None, asked) or (others and policy.set_by is None):
        yield "set by the script" if asked in (None, policy.name) else f"set by the script ({asked} was asked for)"
    if policy.loss_scale is not None and (policy.loss_scale.kind != "none" or name == "mixed_float16"):
        yield _loss_scale(policy.loss_scale)
    if policy.graph_rewrite:
        yield "16 bits by TensorFlow's graph rewrite (auto_mixed_precision)"


def _loss_scale(scale: LossScale) -> str:
    if scale.kind == "none":
        return "no loss scale of the optimizer's"
    fixed = "" if scale.value is None else f" {f.full_number(scale.value)}"
    return "dynamic loss scale" if scale.kind == "dynamic" else f"fixed loss scale{fixed}"


_NO_GPU: Final = {
    "cuda-not-traced": "GPU not known: CUDA was not traced",
    "tpu-profile": "no GPU: a profile of a TPU",
    "no-kernels": "no GPU recorded",
}


def _gpus(profile: Profile) -> str:
    kinds: dict[str, list[Row]] = {}
    for row in profile.require("devices").rows():
        kinds.setdefault(_gpu(row), []).append(row)
    if not kinds:
        codes = {note.code for note in profile.metadata.notes}
        other = next((text for code, text in _NO_GPU.items() if code in codes), "no GPU used: a CPU run")
        return other if profile.metadata.gpu_used is False or "cuda-not-traced" in codes else ""
    several = {name: f"{len(rows)} x {name}" if len(rows) > 1 else name for name, rows in kinds.items()}
    return "; ".join(f"{several[name]}{_states(rows)}" for name, rows in kinds.items())


def _gpu(row: Row) -> str:
    """Return name and abilities of a GPU."""
    vendor = str(row["vendor"] or "")
    name = str(row["name"] or f"{vendor} GPU of unknown name".lstrip())
    inferred = " (inferred)" if row["name_basis"] == "inferred" else ""
    if vendor and vendor.lower() != "nvidia":
        return f"{name}{inferred}, not an NVIDIA GPU"
    compute = f", compute capability {row['compute_capability']}" if row["compute_capability"] else ""
    cores = {"yes": ", has Tensor Cores", "no": ", no Tensor Cores"}.get(str(row["tensor_cores"]), "")
    return f"{name}{inferred}{compute}{cores}"


def _states(rows: list[Row]) -> str:
    idle = [str(r["device"]) for r in rows if r["state"] == "idle"]
    active = [str(r["device"]) for r in rows if r["state"] != "idle"]
    if not idle:
        return ""
    return f": {len(active)} active ({', '.join(active) or 'none'}), {len(idle)} idle ({', '.join(idle)})"


def _window(profile: Profile, window: Window) -> str:
    table = profile.require("iterations")
    phase = counted_phase(profile)
    of = f"{phase[0]}, " if phase else ""
    if window.first is None:
        cut = profile.start_up is not None and window.basis == "whole capture"
        basis = "the capture after its start-up" if cut else window.basis
        return of + basis + _length(profile)
    held = table.numbers("steps")
    whole, counted, span = int(held.sum()) if len(table) else 0, profile.marked_steps or 0, _span(profile, window)
    many = f": {counted:,} of {whole:,} counted" if whole else ""
    return f"{of}{span}{many} ({window.basis}){_length(profile)}"


def _span(profile: Profile, window: Window) -> str:
    """Return the numbers of the window's iterations; of its steps, where one iteration holds several."""
    table = profile.require("iterations")
    last = table.numbers("steps")[table.numbers("iteration") == window.last]
    if window.last is not None and len(last) and (table.numbers("steps") > 1).any():
        return f"steps {window.first} to {window.last + int(last[0]) - 1}"
    return f"step {window.first}" if window.first == window.last else f"steps {window.first} to {window.last}"


def _length(profile: Profile) -> str:
    """Return the length of the window and of a step, as far as they are known; once where they are one."""
    window, step = (profile.figure(name) for name in ("window_ns", "step_time_ns"))
    span, each = (None if row is None else row["value"] for row in (window, step))
    known = [f.duration(span)] if span is not None and span != each else []
    known += [f"a step of {f.duration(each)}"] if each is not None else []
    if profile.waiting is not None and profile.waiting.length == "capture":
        known.append("no step is known" if each is None else "no kernel's step is known")
    return f"; {', '.join(known)}" if known else ""


_BECOME: Final[dict[GradientLoss, str]] = {
    "gone": "vanish",
    "subnormal": "lose digits as subnormals",
    "infinite": "are infinite or NaN",
    "zero": "are 0",
}


def loss_scale_sentence(need: LossScaleNeed) -> str:
    """Return whether float16 needs a scaled loss, and on what that rests."""
    scale, bare = f.full_number(need.scale, 7), need.scale == 1.0
    share = f"{f.percent(need.pct)} of {need.layer}'s gradient values {_BECOME[need.what]}"
    least = "at least " if need.half else ""
    answer = {
        "lost": "Needs loss scaling" if bare else f"Loss scale {scale} is too small",
        "coarse": "Loss scaling would help" if bare else f"A loss scale above {scale} would help",
        "overflows": "Overflows float16 without loss scaling" if bare else f"Loss scale {scale} is too large",
    }
    if need.kind == "holds":
        said = f"Needs its loss scaling: at scale 1 {least}{share} in float16; at the {scale} used {_kept(need)}"
    elif need.kind == "no_need":
        most = "and of no layer more"
        said = f"Its weights' gradients need no loss scaling: at scale 1 {least}{share} in float16, {most}"
    elif need.kind == "unseen":
        said = f"{share}, in float16 maybe vanished ones: profile a float32 run to know whether it needs loss scaling"
    else:
        said = f"{answer[need.kind]}: {share} in float16{_better(need)}"
    part = "" if need.looked_pct == 100.0 else f", {f.percent(need.looked_pct)} of the values"
    return f"{said} ({f.many(need.updates, 'update')}{part})."


def _better(need: LossScaleNeed) -> str:
    """Return what a better scale would keep, where one is known."""
    if need.better in (None, need.scale) or need.better_gone_pct is None:
        return ""
    gone = "none vanish" if need.better_gone_pct == 0.0 else f"at most {f.percent(need.better_gone_pct)} vanish"
    coarse = need.better_subnormal_pct
    also = f" and at most {f.percent(coarse)} are subnormal" if coarse else ""
    overflow = "none overflow, " if need.kind == "overflows" else ""
    return f"; at {f.full_number(need.better or 0.0, 9)} {overflow}{gone}{also}"


def _kept(need: LossScaleNeed) -> str:
    """Return what becomes of the gradients at the scale used; of a float16 run vanished values are among its zeros."""
    coarse = f"{f.percent(need.subnormal_pct)} of a layer's at most are subnormal"
    if need.half:
        return f"{coarse}; of what is 0 (up to {f.percent(need.gone_pct)} of a layer's) it does not tell"
    return f"{f.percent(need.gone_pct)} of a layer's at most vanish" if need.gone_pct else f"none vanish, {coarse}"
