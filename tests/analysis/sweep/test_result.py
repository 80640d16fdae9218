"""What the runs of a sweep say together, worked by hand: speeds, what each change gives, noise, losses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from tcprobe.analysis.sweep.speed import Measured, Speeds
from tcprobe.report.sweep.words import answer
from tcprobe.schema.comparison import Side
from tcprobe.schema.sweep import Gain
from tests.analysis.sweep.builders import around, figures, plan, result

PAIR = {"precision": ("float32", "mixed_float16"), "sizes": ("bad", "good")}
# float32 bad 100 ms, float32 good 80, mixed bad 90, mixed good 40: alone 1.25 and 1.11, together 2.5 = 1.39 x 1.8
TIMES = (100.0, 80.0, 90.0, 40.0)


def test_each_change_alone_beside_the_others_in_the_mean_and_in_pairs() -> None:
    noisy = [figures(*around(ms * drift)) for drift in (1.0, 1.03, 0.98) for ms in TIMES]
    noisy[5] = figures(*around(80 * 1.03 * 1.01))
    found = result(plan(PAIR, repeat=3), noisy)
    assert (found.fastest, found.measure, found.steps) == ((4,), "step_time", "outside the profiler")
    assert [round(row.speedup.ratio or 0.0, 2) for row in found.rows] == [1.0, 1.25, 1.11, 2.5]
    assert [row.speedup.difference for row in found.rows] == ["same", "faster", "faster", "faster"]
    # without mixed_float16 the fastest takes 80 ms, without good sizes 90; the means: sqrt(100/90 x 80/40), and
    # sqrt(100/80 x 90/40), of which one run of 80 ms takes a percent
    told = [(g.kind, g.combination, [c.value for c in g.changes], times(g), g.contexts) for g in found.gains]
    assert told == [
        ("beside", 2, ["good"], 1.25, 1),
        ("beside", 3, ["mixed_float16"], 1.11, 1),
        ("beside", 4, ["mixed_float16"], 2.0, 1),
        ("alone", 4, ["mixed_float16"], 1.11, 1),
        ("beside", 4, ["good"], 2.25, 1),
        ("alone", 4, ["good"], 1.25, 1),
        ("mean", None, ["mixed_float16"], 1.49, 2),
        ("mean", None, ["good"], 1.67, 2),
        ("pair", None, ["mixed_float16", "good"], 1.81, 1),
    ]
    assert {change.instead_of for gain in found.gains for change in gain.changes} == {"float32", "bad"}
    pair = found.gains[-1].speedup
    assert pair.ratio == pytest.approx(2.5 / (1.25 * 10 / 9), rel=0.01)
    assert pair.difference == "faster" and (pair.low or 0) > 1.7


def times(gain: Gain) -> float:
    return round(gain.speedup.ratio or 0.0, 2)


def test_without_repeats_steps_tell_rows_and_nothing_tells_effects() -> None:
    found = result(plan(PAIR), [figures(*around(ms)) for ms in (100, 100.1, 90, 40)])
    assert [row.speedup.difference for row in found.rows] == ["same", "within noise", "faster", "faster"]
    mean, *others = [one for one in found.gains if one.kind in ("mean", "pair")]
    assert {one.speedup.why for one in (mean, *others)} == {"no repeats"}
    assert mean.speedup.ratio == pytest.approx(math.sqrt(100 / 90 * 100.1 / 40))
    assert mean.speedup.low is None


def test_few_steps_tell_nothing_and_runs_do() -> None:
    four = [figures(*around(ms, 4)) for ms in (100, 50)]
    (_, row) = result(plan({"a": "12"}), four).rows
    assert (row.speedup.difference, row.speedup.why) == ("cannot tell", "few steps")
    assert row.speedup.ratio == pytest.approx(2.0)
    assert result(plan({"a": "12"}), four).fastest == (2, 1)
    runs = [figures(*around(ms * drift, 4)) for drift in (1, 1.01, 0.99) for ms in (100, 50)]
    assert result(plan({"a": "12"}, repeat=3), runs).rows[1].speedup.difference == "faster"


def test_runs_that_scatter_widen_what_steps_tell() -> None:
    """Steps of 1 % say that 3 % is real; runs of the same combination differ by 4 % themselves."""
    runs = [(100, 97), (104, 101), (99, 103)]
    found = result(plan({"a": "12"}, repeat=3), [figures(*around(ms)) for pair in runs for ms in pair])
    assert found.rows[1].speedup.difference == "within noise"
    alone = result(plan({"a": "12"}), [figures(*around(ms)) for ms in (100, 90)])
    assert alone.rows[1].speedup.difference == "faster"


def test_drift_that_hits_a_round_is_no_noise_of_runs() -> None:
    """Three rounds, each 20 % slower than the one before: what the change gives stays 2 within a few percent."""
    runs = [Measured(c, r, np.full(1, 100.0 * 1.2**r / c + 0.1 * (r == c))) for r in (1, 2, 3) for c in (1, 2)]
    found = Speeds(runs, "step_time").over(2, 1)
    assert found.difference == "faster"
    assert 1.98 < (found.low or 0) < 2.0 < (found.high or 0) < 2.02


def test_a_run_that_is_missing_leaves_the_rest() -> None:
    noisy = [figures(*around(ms * drift)) for drift in (1.0, 1.03, 0.98) for ms in TIMES]
    found = result(plan(PAIR, repeat=3), [None, *noisy[1:4], None, *noisy[5:8], None, *noisy[9:]])
    assert [row.runs for row in found.rows] == [0, 3, 3, 3]
    assert {row.speedup.why for row in found.rows} == {"not measured"}
    told = [(one.kind, one.changes[0].value, one.contexts) for one in found.gains if one.kind != "beside"]
    assert (found.fastest, told) == ((4,), [("mean", "mixed_float16", 1), ("mean", "good", 1)])
    nothing = result(plan(PAIR), [None] * 4)
    assert (nothing.fastest, nothing.gains) == ((), ())


def test_other_work_is_told_by_throughput() -> None:
    """Half the batch takes 60 % of the time: 1.2 times slower an image, though each step is shorter."""
    runs = [figures(*around(100), rates=around(640), flops=2e9), figures(*around(60), rates=around(533), flops=1e9)]
    found = result(plan({"batch": ("64", "32")}), runs)
    assert (found.other_work, found.measure, found.unit, found.fastest) == (True, "throughput", "img/s", (1,))
    assert found.rows[1].speedup.ratio == pytest.approx(533 / 640, abs=0.01)
    assert found.rows[1].speedup.difference == "slower"
    # no FLOPs: 640 x 100 against 533 x 60 says the same
    unknown = [replace(one, flops=None) for one in runs]
    assert result(plan({"batch": ("64", "32")}), unknown).measure == "throughput"
    lacking = result(plan({"batch": ("64", "32")}), [runs[0], figures(*around(60), flops=1e9)])
    assert (lacking.other_work, lacking.measure) == (True, "step_time")
    assert any(said.startswith("Steps do other work, and not all runs log") for said in answer(lacking))


def test_single_figures_are_compared_where_no_run_has_steps() -> None:
    runs = [figures(step=Side(ms * 1e6)) for ms in (100, 50, 101, 50.5, 99, 50)]
    found = result(plan({"a": "12"}, repeat=3), runs)
    assert (found.steps, found.rows[1].speedup.difference) == (None, "faster")
    assert found.rows[1].step == Side(50e6, 50e6, 50.4e6)
    assert result(plan({"a": "12"}), runs[:2]).rows[1].speedup.why == "one figure"


def decay(scale: float, count: int = 40, seed: int = 0) -> list[float]:
    noise = np.random.default_rng(seed).normal(0.0, 0.02, count)
    return [scale / (1 + step) + 0.3 + float(noise[step]) for step in range(count)]


def test_losses_that_end_as_no_number_and_those_that_leave_the_others() -> None:
    curves = [decay(1.0), decay(1.1, seed=1), [*decay(1.0, seed=2)[:17], *[math.nan] * 23], decay(1.0, seed=3)]
    curves[3][25:] = [value + 0.4 for value in curves[3][25:]]
    runs = [figures(*around(100 - n), logged={"d_loss": each, "accuracy": each}) for n, each in enumerate(curves)]
    found = result(plan({"scale": "abcd"}), runs)
    odd, apart = found.strays
    assert (odd.run, odd.name, odd.kind, odd.step) == (2, "d_loss", "not finite", 17)
    assert (apart.run, apart.name, apart.kind) == (3, "d_loss", "apart")
    assert apart.step is not None and abs(apart.step - 25) <= 2  # half of what smooths it
    assert [curve.name for curve in found.curves] == ["d_loss"] * 4 + ["accuracy"] * 4
    assert (found.rows[2].last["d_loss"].since, found.rows[0].last["d_loss"].value) == (17, curves[0][-1])
    assert 3 not in found.fastest and found.fastest[0] == 4


@pytest.mark.parametrize("seed", range(20))
def test_losses_that_only_scatter_stay(seed: int) -> None:
    runs = [figures(*around(100), logged={"loss": decay(1.0, seed=10 * seed + n)}) for n in range(4)]
    assert result(plan({"seed": "abcd"}), runs).strays == ()


def test_equal_seeds_leave_no_band_but_of_their_level() -> None:
    """Three combinations train alike to a digit; one that ends 5 % higher is none that strays, one of 20 % is."""
    base = [1.0 / (1 + step) + 0.3 for step in range(40)]
    for more, strays in ((1.05, []), (1.2, [3])):
        curves = [base, base, base, [value * more for value in base]]
        runs = [figures(*around(100), logged={"loss": each}) for each in curves]
        assert [one.run for one in result(plan({"a": "1234"}), runs).strays] == strays


def test_repeats_of_one_combination_make_no_band() -> None:
    runs = [figures(*around(100), logged={"loss": decay(scale)}) for scale in (1.0, 30.0) * 3]
    assert result(plan({"a": "12"}, repeat=3), runs).strays == ()


def test_of_two_curves_that_part_nobody_knows_which_strays() -> None:
    runs = [figures(*around(100), logged={"loss": decay(scale)}) for scale in (1.0, 30.0)]
    assert result(plan({"a": "12"}), runs).strays == ()
