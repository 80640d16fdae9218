"""What a profile holds many of is looked into once each, and refused past any count that a real one has."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tcprobe.analysis.kernels.rule import LONGEST_FUNCTION, LONGEST_NAME, is_cut
from tcprobe.analysis.ops.paths import MOST_SCOPES, KnownScopes
from tcprobe.analysis.phases import _commonest
from tcprobe.analysis.validity import long_name_notes
from tcprobe.errors import WrongFormat
from tcprobe.readers.dlprof.layout import KERNEL
from tcprobe.readers.dlprof.text import MOST_COLUMNS, _layout
from tcprobe.readers.hlo.gemms import MOST_PRODUCTS, gemms_of
from tcprobe.readers.hlo.module import Instruction, Module
from tcprobe.readers.protobuf import DamagedError
from tcprobe.readers.run_folder.periods import MOST_PHASES, read_phases
from tcprobe.schema.tables import KERNELS, OPS
from tests.analysis import builders as b
from tests.audit.fix.fixes.whole import whole


def module(dots: int) -> Module:
    """Return a module whose two fusions call one computation, of sums and some dots."""
    sums = [Instruction(name=f"add.{i}", opcode="add") for i in range(50)]
    fused = [*sums, *(Instruction(name=f"dot.{i}", opcode="dot") for i in range(dots))]
    return Module("m", 0, {0: [Instruction(name=n, opcode="fusion", calls=[1]) for n in "ab"], 1: fused})


def test_sees_of_a_computation_what_multiplies() -> None:
    made = module(2)
    found = [[gemm.executed.name for gemm in gemms_of(made, one)] for one in made.computations[0]]
    assert found == [["a", "a"], ["b", "b"]]
    assert {key: len(held) for key, held in (made.telling or {}).items()} == {0: 1, 1: 2}


def test_refuses_products_beyond_any_fusion() -> None:
    with pytest.raises(DamagedError, match="instruction a holds more than 256 products"):
        gemms_of((made := module(MOST_PRODUCTS + 1)), made.computations[0][0])


@pytest.mark.parametrize(("count", "read"), [(MOST_PHASES, True), (MOST_PHASES + 1, False)])
def test_phases_of_a_run_are_few(count: int, read: bool) -> None:
    given = [{"first_step": i, "last_step": i, "parts": []} for i in range(count)]
    assert (read_phases({"phases": given}) is not None) is read


def test_refuses_a_table_of_too_many_columns() -> None:
    columns = ["kernel name", "total gpu time ns", *(f"c{i}" for i in range(MOST_COLUMNS))]
    with pytest.raises(WrongFormat, match="has 102 columns, where no report of DLProf has 100"):
        _layout(Path("x.csv"), "Kernel Report", columns)
    assert _layout(Path("x.csv"), "Kernel Report", columns[:MOST_COLUMNS]).kind == KERNEL


def test_models_are_what_stands_around_holders() -> None:
    random = Random(1)
    for _ in range(500):
        made = [tuple(random.choices("abc", k=random.randrange(6))) for _ in range(5)]
        holders, scope = frozenset(made[1:]), made[0]
        around = {holder[:depth] for holder in holders for depth in range(1, len(holder))}
        wanted = max((d for d in range(1, len(scope)) if scope[:d] in around), default=0)
        if scope not in holders:
            assert KnownScopes(frozenset(), holders, tuple(sorted(holders))).model_depth(scope) == wanted


def test_commonest_of_several_is_the_largest() -> None:
    assert _commonest(np.array([3, 7, 7, 3, 1])) == 7


def test_says_which_names_were_cut() -> None:
    assert is_cut("f" * (LONGEST_FUNCTION + 1)) and is_cut(f"f<{'a' * LONGEST_NAME}>")
    assert not is_cut(f"f<{'a' * (LONGEST_NAME - 10)}>")
    kernels = b.table(KERNELS, [{"kernel": "f" * (LONGEST_FUNCTION + 1)}, {"kernel": "f"}])
    profile = b.profile(kernels, b.table(OPS, [{"op": "a/" * (MOST_SCOPES + 1)}]))
    assert [note.message for note in long_name_notes(profile)] == [
        "1 name(s) of kernels are longer than any known: their class is told from the beginning",
        "1 path(s) of ops are deeper than 200 scopes: their layers are told from the outer ones",
    ]


def test_fixes_of_four_times_the_layers_take_four_times_the_calls() -> None:
    calls = []
    for count in (2, 60, 240):
        text = f"import keras\nm = keras.Sequential([keras.Input((64,)), {'keras.layers.Dense(63), ' * count}])\n"
        with cProfile.Profile() as profile:
            whole(text)
        calls.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    assert calls[2] < 4.5 * calls[1]
