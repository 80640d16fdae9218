"""Take from the tables of a profile as read what a source may lack: names, ops, ranges, steps, devices, columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.schema.columns import Names, Table, concatenate
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import RECORDED
from tests.fuzz.mutate.chance import Chance

KERNELS: Final = (
    "redzone_checker", "xla_fp_comparison", "volta_h884gemm_128x64_ldg8_nn", "ampere_sgemm_32x32_nn",
    "void fft2d_r2c_32x32<float>", "winograd_nonfused", "im2col4d_kernel", "cudnn::cnn::implicit_convolve_sgemm",
    "ncclDevKernel_AllReduce", "gemm_fusion_dot_7", "nchwToNhwcKernel", "Kernel",
)  # fmt: skip
"""Names that the analysis acts on: checkers of autotuning, algorithms, Tensor Cores, communication, layout changes."""
ROWS_OF: Final = {"op_id": "op_details", "config_id": "launch_configs"}
NOBODY: Final = "of-nobody"
RECORD: Final = ("launches", "kernels", "ops", "reported")
"""Tables that say that a GPU ran kernels: without any of them there is nothing to report."""
STEPS: Final = ("step_marks", "steps")

Change = Callable[[Profile, Chance], Profile]


def mutated(profile: Profile, chance: Chance) -> Profile:
    """Return the profile with a few things changed; `launches`, their times, and their GPUs stay."""
    for change in chance.choices(CHANGES, k=chance.choice((1, 1, 2, 3, 5))):
        profile = change(profile, chance)
    return _with_nobody(profile)


def _with_nobody(profile: Profile) -> Profile:
    """End every list of names, and what launches number, with what nothing has: an index of none would give that."""
    tables = []
    for name, table in profile.tables.items():
        free = [c.name for c in table.spec.columns if c.kind == "str" and not c.values]
        columns = {n: Names(table.names(n).ids, [*table.names(n).names, NOBODY]) for n in free}
        tables.append(table.with_columns(**columns))
        if name in (*ROWS_OF.values(), "ranges"):
            later = {"start_ns": 1 << 50, "duration_ns": 1} if name == "ranges" else {}
            nobody = Table.from_rows(table.spec, [{**dict.fromkeys(free, NOBODY), **later}])
            tables[-1] = concatenate(table.spec, [tables[-1], nobody])
    return profile.with_tables(*tables)


def _some(count: int, chance: Chance) -> NDArray[np.bool_]:
    """Return which of `count` rows: all, half of them, or a few."""
    share = chance.choice((1.0, 0.5, 0.05))
    return np.random.default_rng(chance.getrandbits(32)).random(count) < share


def _renamed(profile: Profile, chance: Chance) -> Profile:
    """Give kernels other names, each table the same."""
    new: dict[str, str] = {}
    share, tables = chance.choice((0.1, 0.5, 1.0)), []
    for table in profile.tables.values():
        if "kernel" in table:
            names = table.names("kernel")
            for name in names.names:
                if name not in new:
                    new[name] = _name(name, chance) if chance.random() < share else name
            tables.append(table.with_columns(kernel=Names(names.ids, [new[name] for name in names.names])))
    return profile.with_tables(*tables)


def _name(name: str, chance: Chance) -> str:
    kind = chance.random()
    return chance.choice(KERNELS) if kind < 0.7 else name[:-1] or "k" if kind < 0.8 else chance.near(name)[:300]


def _without_ids(profile: Profile, chance: Chance) -> Profile:
    """Let launches be of no op or of no configuration, and that table be empty, absent or as it was."""
    column = chance.choice(sorted(ROWS_OF))
    launches, chosen = profile.require("launches"), _some(len(profile.require("launches")), chance)
    profile = (
        profile.with_tables(
            launches.with_columns(**{column: np.where(chosen, -1, launches.numbers(column)).astype(np.int64)})
        )
        if len(launches)
        else profile
    )
    table = profile.table(ROWS_OF[column])
    if table is None or not chosen.all() or chance.random() < 0.5:
        return profile
    empty = table.take(np.zeros(0, np.int64))
    return profile.with_tables(empty) if chance.random() < 0.5 else _without(profile, table.spec.name)


def _without_ops(profile: Profile, chance: Chance) -> Profile:
    """Take ops away; those that are left have other numbers."""
    details, launches = profile.require("op_details"), profile.require("launches")
    kept = ~_some(len(details), chance)
    number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    return profile.with_tables(details.take(kept), launches.with_columns(op_id=number[launches.numbers("op_id")]))


def _without_steps(profile: Profile, chance: Chance) -> Profile:
    """Take away all that says of steps, or only from the launches, or only from some of them."""
    launches = profile.require("launches")
    if len(launches):
        steps = np.where(_some(len(launches), chance), np.nan, launches.numbers("iteration"))
        profile = profile.with_tables(launches.with_columns(iteration=steps))
    for name in STEPS if chance.random() < 0.5 else ():
        profile = _without(profile, name)
    ranges = profile.table("ranges")
    if ranges is not None and chance.random() < 0.5:
        profile = profile.with_tables(ranges.take(~ranges.names("kind").among("step")))
    return profile


def _without_table(profile: Profile, chance: Chance) -> Profile:
    """Take away a table whose rows no other numbers."""
    names = [n for n in profile.tables if n not in (*RECORD, *ROWS_OF.values())]
    return _without(profile, chance.choice(names)) if names else profile


def _without(profile: Profile, name: str) -> Profile:
    """Return the profile without a table."""
    tables = {n: table for n, table in profile.tables.items() if n != name}
    return type(profile)(profile.metadata, tables, {**profile.absent, name: "taken away"})


def _without_rows(profile: Profile, chance: Chance) -> Profile:
    names = [n for n in profile.tables if n not in (*RECORD, *ROWS_OF.values())]
    if not names:
        return profile
    table = profile.tables[chance.choice(names)]
    return profile.with_tables(table.take(~_some(len(table), chance)))


def _without_values(profile: Profile, chance: Chance) -> Profile:
    """Let some or all values of a column that may be NA be so."""
    columns = [
        (t, c.name) for t in profile.tables.values() for c in t.spec.columns if c.nullable and c.name not in SUMS
    ]
    if not columns:
        return profile
    table, name = chance.choice(columns)
    return profile.with_tables(table.with_columns(**{name: _emptied(table.columns[name], chance)}))


def _emptied(data: Any, chance: Chance) -> Any:
    chosen = _some(len(data), chance)
    if isinstance(data, Names):
        names = [] if chosen.all() and chance.random() < 0.5 else data.names
        return Names(np.where(chosen, -1, data.ids), names)
    return np.where(chosen, np.nan, data)


SUMS: Final = ("calls", "sum_ns", "union_ns", "value")
"""Columns of the tables that a profiler summed, which hold the sums in question."""
CHANGES: Final[tuple[Change, ...]] = (
    _renamed, _renamed, _without_ids, _without_ids, _without_ops, _without_steps, _without_table, _without_rows,
    _without_values, _without_values, _without_values,
)  # fmt: skip
assert {spec.name for spec in RECORDED} >= {*ROWS_OF.values(), *STEPS}
