"""Find autotuning: calls of an op in which a library tries one algorithm after the other and keeps the fastest.

docs/figures.md gives the rule and where its thresholds come from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.analysis.kernels.kinds import kind_of
from tcprobe.gemm.ops import conv_like, family_of
from tcprobe.grouping import Codes, Numbers, count_by, distinct_rows
from tcprobe.schema.columns import IntArray, Names, Table
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.waits import Tuning

ALGORITHMS: Final = 3  # of a convolution; a call outside autotuning runs one, a backward call of PyTorch two
TRIED: Final = 4  # kernels that multiply; such a call runs one or two
MANY: Final = 10  # launches; such a call makes up to seven, an autotuned one 18 to 58 on real profiles
NAMELESS: Final = 4  # families among convolutions without an op that follow one another: several ops may be among them
RECURS: Final = 3  # steps: what looks like autotuning in so many of them is none, for each shape is tuned once

CHECKER: Final = re.compile(r"redzone_checker|xla_\w{1,80}_comparison")
_FAMILIES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"fft2d_|DSE::.{0,200}fft",
        r"[wW]inograd",
        r"im2col|explicit_convolve",
        r"direct_kernel|(?:dgrad|wgrad)\w{0,80}_engine|conv_depthwise",
        r"implicit_convolve|implicit_gemm|scudnn_(?!winograd)|\dcudnn|xmma_(?:fprop|dgrad|wgrad)",
    )
)
_MULTIPLIES: Final = re.compile(
    r"gemm|convolve|cudnn_\d|scudnn|\dcudnn|xmma_|cutlass|nvjet|_engine<|direct_kernel|winograd_\d|cijk_"
)
_HELPS: Final = re.compile(
    r"offsets|pointers|reduce|im2col|transpose|flip_filter|scale|nchw\w{0,80}to|nhwc\w{0,80}to|shuffle|bias_act|convert|winograd\w{0,80}(?:data|filter|output|tiles)"
)
_TORCH: Final = re.compile(r"(?:aten::)?_?(?:conv(?:olution)?\w*|linear|matmul|b?mm|b?addb?mm|einsum)$", re.IGNORECASE)


class TunedCalls(Struct, frozen=True):
    """Which launches belong to autotuned calls of an op."""

    call: IntArray  # of each launch of the profile, number of the tuned call it belongs to; -1 for none

    def rows(self, of_launch: Codes) -> frozenset[int]:
        """Return the rows of the iterations that hold such a call, by the row of each launch, -1 for none."""
        return frozenset(of_launch[(self.call >= 0) & (of_launch >= 0)].tolist())


def tuned_calls(profile: Profile) -> TunedCalls:
    """Return the launches of autotuned calls.

    A call is a run of launches of one op in one step on one GPU, in the order in which the host made them; of launches
    without an op, one of convolutions and their helpers alone.
    """
    launches = profile.require("launches")
    kernel = launches.names("kernel")
    traits = _Traits.of(kernel.names)
    candidate = _candidates(profile, kernel, traits)
    varied = len(set(traits.family[traits.family >= 0].tolist())) >= NAMELESS
    if not candidate.any() and not varied:
        return TunedCalls(np.full(len(launches), -1, np.int64))
    op = launches.numbers("op_id").astype(np.int64)
    made = launches.numbers("launch_ns")
    made = np.where(np.isnan(made), launches.numbers("start_ns"), made)
    device, step = launches.numbers("device"), np.nan_to_num(launches.numbers("iteration"), nan=-1.0)
    order = np.lexsort((made, device))
    changed = [np.diff(column[order]) != 0 for column in (op, device, step)]
    run = np.append(0, np.cumsum(np.logical_or.reduce(changed)))
    tuned, checked = _tuned_runs(run, kernel.ids[order], op[order], candidate, traits)
    seems = tuned & ~checked
    tuned &= checked | ~_recurring(op[order], device[order].astype(np.int64), step[order].astype(np.int64), seems)
    call = np.full(len(launches), -1, np.int64)
    call[order] = np.where(tuned, run, -1)
    if varied:
        nameless = (op[order] < 0) & ~tuned
        found = _nameless(run, kernel.ids[order], nameless & traits.convolves[kernel.ids[order]], traits)
        call[order] = np.where(found >= 0, found, call[order])
    return TunedCalls(call)


class _Traits(NamedTuple):
    """What the names of kernels tell, by the place of the name: checkers, kernels that multiply, family or -1."""

    checks: NDArray[np.bool_]
    multiplies: NDArray[np.bool_]
    family: IntArray
    convolves: NDArray[np.bool_]  # whether it multiplies, or is a product's helper

    @classmethod
    def of(cls, names: list[str]) -> _Traits:
        family = [next((i for i, known in enumerate(_FAMILIES) if known.search(name)), -1) for name in names]
        small = [name.lower() for name in names]
        multiplies = [bool(_MULTIPLIES.search(name)) and not _HELPS.search(name) for name in small]
        checks = [bool(CHECKER.search(name)) for name in names]
        convolves = [kind_of(name) in ("convolution", "matmul", "helper") for name in names]
        bools = (np.array(one, np.bool_) for one in (checks, multiplies, convolves))
        checked, products, parts = bools
        return cls(checked, products, np.array(family, np.int64), parts)


def _candidates(profile: Profile, kernel: Names, traits: _Traits) -> NDArray[np.bool_]:
    """Return which ops may have been tuned, by their row of `op_details`; the last is that of launches without one."""
    details, launches = profile.require("op_details"), profile.require("launches")
    count = len(details) + 1
    (kernels, ops), _ = distinct_rows(kernel.ids, launches.numbers("op_id"))
    ops = np.where((ops >= 0) & (ops < count - 1), ops, count - 1)
    checked, tried, families = _tried(ops, kernels, traits, count)
    kinds = details.names("op_type")
    product = np.append(kinds.among(*filter(_is_product, kinds.names)), False)
    candidate: NDArray[np.bool_] = checked | (product & ((tried >= TRIED) | (families >= ALGORITHMS)))
    return candidate


def _is_product(op_type: str) -> bool:
    """Return whether an op of this type is one product or convolution: it needs one algorithm a call."""
    family = family_of(op_type)
    return family not in (None, "rnn") or conv_like(op_type) or _TORCH.match(op_type) is not None


def _tried(
    groups: IntArray, kernels: Numbers, traits: _Traits, count: int
) -> tuple[NDArray[np.bool_], IntArray, IntArray]:
    """Return whether each of `count` groups holds a checker, and how many kernels that multiply and families it has."""
    checked = np.bincount(groups, weights=traits.checks[kernels], minlength=count) > 0
    multiply = np.where(traits.multiplies[kernels], kernels, -1).astype(np.int64)
    return checked, _distinct(groups, multiply, count), _distinct(groups, traits.family[kernels], count)


def _distinct(groups: IntArray, values: IntArray, count: int) -> IntArray:
    """Return how many distinct values of 0 or more each of `count` groups holds."""
    known = values >= 0
    (members, _), _ = distinct_rows(groups[known], values[known])
    return count_by(members, count)


def _tuned_runs(
    run: IntArray, kernel: NDArray[np.int32], op: IntArray, candidate: NDArray[np.bool_], traits: _Traits
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which launches, in the order of the runs, belong to a tuned call, and whose run holds a checker."""
    count = int(run[-1]) + 1
    known = (op >= 0) & (op < len(candidate) - 1)
    may = candidate[np.where(known, op, len(candidate) - 1)]
    checked, tried, families = _tried(run[may], kernel[may], traits, count)
    tuned = checked | (families >= ALGORITHMS) | ((tried >= TRIED) & (count_by(run, count) >= MANY))
    return may & tuned[run] & (known | _checked_part(run, traits.checks[kernel])), checked[run]


def _nameless(run: IntArray, kernel: NDArray[np.int32], mine: NDArray[np.bool_], traits: _Traits) -> IntArray:
    """Return the number of the tuned call of each launch without an op, -1 for none; above those of the runs with one.

    Kernels that an algorithm of a convolution is made of follow one another, and four families are among them. What
    comes `RECURS` times alike is none: each shape is tuned once.

    Args:
        run: number of the run of each launch, in the order in which the host made them.
        kernel: place of its name.
        mine: whether it may belong to such a call.
        traits: of the names.
    """
    parted = (np.diff(run) != 0) | (np.diff(mine.astype(np.int8)) != 0)
    part = np.append(0, np.cumsum(parted))
    count = int(part[-1]) + 1
    checked, tried, families = _tried(part[mine], kernel[mine], traits, count)
    tuned = ~checked & (families >= NAMELESS) & (tried >= TRIED) & (count_by(part[mine], count) >= MANY)
    ends = np.append(np.flatnonzero(parted) + 1, len(part))
    held = {at: kernel[0 if at == 0 else ends[at - 1] : ends[at]].tobytes() for at in np.flatnonzero(tuned).tolist()}
    alike = Counter(held.values())
    for at, names in held.items():
        tuned[at] = alike[names] < RECURS
    return np.where(mine & tuned[part], int(run[-1]) + 1 + part, -1)


def _recurring(op: IntArray, device: IntArray, step: IntArray, seems: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which launches are of ops that seem tuned in most of their steps on a GPU.

    Calls one after the other that a source names alike, as those of an eager loop, look like one that tries kernels.
    """
    seems = seems & (step >= 0)
    if not seems.any():
        return np.zeros(len(op), np.bool_)
    (ops, devices, _), place = distinct_rows(op, device, step)
    (_, _), of_step = distinct_rows(ops, devices)
    looked = np.bincount(place, weights=seems, minlength=len(ops)) > 0
    times, steps = np.bincount(of_step, weights=looked), np.bincount(of_step)
    recurs = (times >= RECURS) & (2 * times >= steps)
    again: NDArray[np.bool_] = recurs[of_step][place]
    return again


def _checked_part(run: IntArray, checks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which launches lie between the launch before the first checker of their run and the last one.

    Of launches without an op, a run may hold much else.
    """
    place = np.arange(len(run))
    first, last = np.full(int(run[-1]) + 1, len(run)), np.full(int(run[-1]) + 1, -1)
    np.minimum.at(first, run[checks], place[checks] - 1)
    np.maximum.at(last, run[checks], place[checks])
    part: NDArray[np.bool_] = (place >= first[run]) & (place <= last[run])
    return part


def tuning_of(profile: Profile, tuned: TunedCalls, counted: NDArray[np.bool_]) -> Tuning | None:
    """Return what autotuning takes of the launches that count; None if they hold none."""
    launches = profile.require("launches")
    mine = (tuned.call >= 0) & counted
    if not mine.any():
        return None
    spent = launches.numbers("duration_ns")
    op, call = launches.numbers("op_id")[mine].astype(np.int64), tuned.call[mine]
    calls = np.bincount(call)
    worst = int(calls.argmax())
    total = float(spent[counted].sum())
    share = 100.0 * float(spent[mine].sum()) / total if total > 0 else 0.0
    name = _op_name(profile.require("op_details"), int(op[call == worst][0]))
    ops = len(set(op[op >= 0].tolist())) + len(set(call[op < 0].tolist()))
    return Tuning(ops, int(mine.sum()), float(spent[mine].sum()), share, name, int(calls[worst]))


def tuning_notes(tuning: Tuning | None) -> Iterator[Note]:
    """Yield a warning where the window holds autotuning."""
    if tuning is not None:
        ops = "1 op" if tuning.ops == 1 else f"{tuning.ops} ops"
        yield Note(
            "autotuning-inside",
            f"the window holds autotuning: {ops} with up to {tuning.worst_calls} kernels a call, "
            f"{tuning.share_pct:.1f} % of the kernel time",
            "profile later steps: each shape is tuned the first time that it occurs",
        )


def _op_name(details: Table, op: int) -> str | None:
    return str(details.names("op")[op]) if 0 <= op < len(details) else None
