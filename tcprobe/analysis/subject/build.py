"""Gather what the rules on runs read of an analysed profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.analysis.context import identified
from tcprobe.analysis.subject.framework import framework
from tcprobe.analysis.subject.kernels import small_ns, tiny_kernels, top_kernel
from tcprobe.analysis.subject.layout import layout_work
from tcprobe.analysis.subject.scaling import loss_scaling
from tcprobe.analysis.subject.steps import epoch_steps, memory_use, tf32_off, warm_up
from tcprobe.analysis.subject.unnamed import unnamed
from tcprobe.analysis.summary.waiting import busiest_gpu, kernel_steps
from tcprobe.analysis.waits.gaps import idle_of, short_of
from tcprobe.hardware import Gpu
from tcprobe.rules.run.base import OffOp, RunSubject
from tcprobe.rules.run.facts import Facts
from tcprobe.schema.kinds import Blocker
from tcprobe.schema.profile import OffTensorCores, Profile
from tcprobe.schema.sizes import worst_first

HLO_TYPES: Final = frozenset({"dot", "convolution", "ragged-dot", "scaled-dot", "__cublas", "__cudnn"})


def subject_of(profile: Profile) -> RunSubject:
    """Return what the rules read of a profile.

    Args:
        profile: with all tables, what keeps ops off the Tensor Cores, and what-ifs where there are any.
    """
    off, waiting = profile.off, profile.waiting
    unnamed_ns, unnamed_kernel = unnamed(profile)
    gpus, busiest = busiest_gpu(profile)
    step = _figure(profile, "step_time_ns", "value")
    return RunSubject(
        off=tuple(_off(off)),
        total=off.total if off else 0.0,
        measured=bool(off and off.measured),
        bounded=bool(off and off.bounded),
        unnamed_ns=unnamed_ns,
        unnamed_kernel=unnamed_kernel,
        kernel_ns=_figure(profile, "kernel_time_ns", "value") or 0.0,
        sizes=tuple(worst_first(profile.require("bad_sizes")).rows()),
        waiting=waiting,
        gaps=tuple(profile.require("gaps").rows()),
        idle_ns=idle_of(profile),
        short_ns=short_of(profile),
        copy_ns=_copies(profile),
        tuning=profile.tuning,
        gpu=_gpu(profile),
        gpus=gpus,
        busiest=busiest,
        steps=kernel_steps(profile),
        step_ns=waiting.step_ns if waiting else step,
        framework=framework(profile),
        compiled=_compiled(profile),
        what_ifs=profile.what_ifs,
        facts=_facts(profile),
    )


def _facts(profile: Profile) -> Facts:
    counted = profile.counted_steps or _figure(profile, "iterations_in_window", "value")
    return Facts(
        tiny=tiny_kernels(profile),
        layout=layout_work(profile),
        scaling=loss_scaling(profile),
        warm_up=warm_up(profile, None if counted is None else round(counted)),
        top=top_kernel(profile),
        memory=memory_use(profile),
        small_ns=small_ns(profile),
        epoch_steps=epoch_steps(profile, counted),
        tf32_off=tf32_off(profile),
    )


def _off(cost: OffTensorCores | None) -> Iterator[OffOp]:
    for row, weight in zip(cost.table.rows(), cost.weight.tolist(), strict=True) if cost else ():
        if (blocker := Blocker.of(row)) is not None:
            yield OffOp(row, blocker, weight)


def _copies(profile: Profile) -> float:
    causes = profile.require("causes")
    return float(np.nansum(causes.numbers("split_ns")[causes.names("cause").among("copy")]))


def _figure(profile: Profile, metric: str, column: str) -> float | None:
    row = profile.figure(metric)
    found = None if row is None else row[column]
    return None if found is None else float(found)


def _gpu(profile: Profile) -> Gpu | None:
    active = [row for row in profile.require("devices").rows() if row["state"] == "active"]
    models = {gpu.id: gpu for row in active if (gpu := identified(row).gpu)}
    return next(iter(models.values())) if len(models) == 1 else None


def _compiled(profile: Profile) -> bool:
    """Return whether XLA compiled the step: the run says so, or ops of its graph are HLO instructions."""
    types = {str(name).split("$")[0] for name in profile.require("graph_ops").names("op_type").names}
    return profile.metadata.xla is True or bool(types & HLO_TYPES)
