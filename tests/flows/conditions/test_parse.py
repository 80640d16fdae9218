"""Read conditions: names with or without unit, units, signs, and a clear refusal of everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.flows.compare import make_comparison
from tcprobe.flows.conditions import PRECISION, UNITS, parse_conditions
from tcprobe.flows.report import make_report
from tcprobe.schema.comparison import COMPARED, OF_ONE_RUN, RELATIONS, Condition
from tests.report.builders import PROFILES
from tests.support import ROOT, shared


def parsed(text: str, changes: bool = True) -> Condition:
    (found,) = parse_conditions([text], changes)
    return found


@pytest.mark.parametrize(
    ("text", "metric", "relation", "limit", "change", "percent"),
    [
        ("tc_kernel_time_pct<30", "tc_kernel_time_pct", "<", 30.0, False, False),
        ("tc_kernel_time < 30 %", "tc_kernel_time_pct", "<", 30.0, False, False),
        ("step_time>+5%", "step_time_ns", ">", 5.0, True, True),
        ("step_time_ns>=-5 %", "step_time_ns", ">=", -5.0, True, True),
        ("step_time>100ms", "step_time_ns", ">", 1e8, False, False),
        ("step_time<=62.1ms", "step_time_ns", "<=", 62_100_000.0, False, False),
        ("step_time_ns>100", "step_time_ns", ">", 100.0, False, False),
        ("step_time>-3us", "step_time_ns", ">", -3000.0, True, False),
        ("  step_time\t>\n+ 1.5 s ", "step_time_ns", ">", 1.5e9, True, False),
        ("peak_memory>10GiB", "peak_memory_bytes", ">", 10 * 2.0**30, False, False),
        ("peak_memory_bytes > 1.5GB", "peak_memory_bytes", ">", 1.5e9, False, False),
        ("peak_memory>+512 MiB", "peak_memory_bytes", ">", 512 * 2.0**20, True, False),
        ("kernels!=246", "kernels", "!=", 246.0, False, False),
        ("bad_size_count==0", "bad_size_count", "==", 0.0, False, False),
        ("gpu_busy<-5pp", "gpu_busy_pct", "<", -5.0, True, False),
        ("gpu_busy<-5", "gpu_busy_pct", "<", -5.0, True, False),
        ("gpu_busy<-5%", "gpu_busy_pct", "<", -5.0, True, True),
        ("idle>30%", "idle_pct", ">", 30.0, False, False),
        ("idle>3ms", "idle_ns", ">", 3e6, False, False),
        ("idle_ns>+5%", "idle_ns", ">", 5.0, True, True),
        ("achieved>=1e2", "achieved_tflop_per_s", ">=", 100.0, False, False),
        ("mfu<40%", "mfu_pct", "<", 40.0, False, False),
        ("mfu<-2pp", "mfu_pct", "<", -2.0, True, False),
        ("precision_fp32_time>50%", "precision_fp32_time_pct", ">", 50.0, False, False),
        ("throughput<-.5%", "throughput", "<", -0.5, True, True),
        ("step_time>0", "step_time_ns", ">", 0.0, False, False),
    ],
)
def test_what_is_read(text: str, metric: str, relation: str, limit: float, change: bool, percent: bool) -> None:
    assert parsed(text) == Condition(text, metric, relation, limit, change, percent)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step_tme>5ms", "no figure step_tme"),
        ("bad_sizes>3", "no figure bad_sizes"),
        ("step_time>5", "5 of what"),
        ("step_time>+5", "5 of what"),
        ("peak_memory>5", "5 of what"),
        ("step_time>5%", "is no percentage"),
        ("step_time>5GiB", "is not in GiB"),
        ("kernels>5k", "is not in k"),
        ("tc_kernel_time<5pp", "is not in pp"),
        ("idle>5", "may be idle_pct or idle_ns"),
        ("idle>+5%", "may be idle_pct or idle_ns"),
        ("window>+3ms", "window_ns is not compared"),
        ("step_time>nan", "'nan' is no number"),
        ("step_time>inf", "'inf' is no number"),
        ("step_time>1e999", "too large"),
        ("step_time>1e308s", "too large"),
        ("step_time=5ms", "holds none of"),
        ("step_time", "holds none of"),
        (">5ms", "no name of a figure"),
        ("step_time>", "'' is no number"),
        ("step_time>5 m s", "'5 m s' is no number"),
        ("", "is empty"),
        ("  ", "is empty"),
        ("step_time>\u0665ms", "is no number"),
        ("kernels>" + "1" * 300, "308 characters"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")) as refused:
        parsed(text)
    assert refused.value.hint


def test_a_typo_names_the_nearest_and_a_few() -> None:
    with pytest.raises(UsageError) as refused:
        parsed("step_tme>5ms")
    assert str(refused.value.hint).startswith("did you mean step_time? others: step_time, throughput, ")


def test_a_percentage_without_sign_shows_the_sign() -> None:
    with pytest.raises(UsageError) as refused:
        parsed("throughput <= 5%")
    assert refused.value.hint == "a sign makes it a change: throughput<=-5%"


def test_a_change_needs_something_to_change_from() -> None:
    with pytest.raises(UsageError, match="nothing is compared") as refused:
        parsed("step_time>+5%", changes=False)
    assert "--against" in str(refused.value.hint)


def test_the_same_condition_twice_counts_once() -> None:
    assert len(parse_conditions(["kernels>5", "kernels>5", "kernels>6"], False)) == 2


NAMES = st.sampled_from(sorted({**COMPARED, **OF_ONE_RUN}))
SPACE = st.sampled_from(["", " ", "\t ", "\n"])


@given(NAMES, st.sampled_from(RELATIONS), st.floats(0, 1e15, allow_nan=False), st.data(), st.tuples(*[SPACE] * 5))
def test_what_is_written_is_read_again(
    name: str, relation: str, number: float, data: st.DataObject, spaces: tuple[str, ...]
) -> None:
    kind = {**COMPARED, **OF_ONE_RUN}[name]
    sign = data.draw(st.sampled_from(["", "+", "-"] if name in COMPARED else [""]))
    units = [u for u in UNITS[kind] if sign or u != "pp"] + (["%"] if sign else [])
    unit = data.draw(st.sampled_from(["", *units]))
    text = spaces[0] + name + spaces[1] + relation + spaces[2] + sign + spaces[3] + repr(number) + unit + spaces[4]
    found = parsed(text)
    percent = bool(sign) and unit == "%"
    factor = 1 if percent or not unit else UNITS[kind][unit]
    assert (found.metric, found.relation, found.change, found.percent) == (name, relation, bool(sign), percent)
    assert found.limit == pytest.approx((-1 if sign == "-" else 1) * number * factor, rel=1e-12)


ALMOST = st.lists(
    st.sampled_from(
        ["step_time", "kernels", "_ns", "<", ">=", "=", "!", "+", "-", "5", ".", "e9", "%", "ms", " ", "\0"]
    )
).map("".join)


@given(st.one_of(st.text(), ALMOST), st.booleans())
def test_garbage_is_a_usage_error_and_nothing_else(text: str, changes: bool) -> None:
    try:
        found = parsed(text, changes)
    except UsageError as error:
        assert error.hint
    else:
        assert found.text == text
        assert abs(found.limit) < float("inf")


def test_every_figure_of_a_summary_has_its_place() -> None:
    """What `summary` holds of made runs, of the recorded one, and of samples of other formats."""
    paths = [ROOT / "tests/fixtures/gpu_run/run"]
    profiles = [make() for make in PROFILES.values()] + [make_report(path) for path in paths]
    found = {str(row["metric"]) for one in profiles for row in one.require("summary").rows()}
    unplaced = found - {*COMPARED, *OF_ONE_RUN, "gpu", "tc_pipe_active_pct"}  # of a made summary alone
    assert {name for name in unplaced if not PRECISION.fullmatch(name)} == set()


def test_every_figure_that_is_compared_has_its_place_and_unit() -> None:
    """A figure that a comparison holds and `COMPARED` lacks could not be asked for."""
    trace = next((ROOT / "tests/fixtures/gpu_run/run/raw").rglob("*.xplane.pb"))
    figures = make_comparison([ROOT / "tests/fixtures/gpu_run/run", trace]).figures
    units = {one.metric: one.unit for one in figures}
    assert set(units) <= set(COMPARED)
    assert len(units) > 12
    same = {name: unit for name, unit in COMPARED.items() if name in units and unit not in ("logged", "flops")}
    assert {name: units[name] for name in same} == same


def test_every_figure_of_real_profiles_has_its_place() -> None:
    names = ("nsys/h100x2_bf16_after_nsys2026.sqlite", "dlprof/v100_tf1_0.13_detailed.csv")
    paths = [shared(f"samples/{name}") for name in names]
    found = {str(r["metric"]) for path in paths for r in make_report(path).require("summary").rows()}
    assert {n for n in found - {*COMPARED, *OF_ONE_RUN} if not PRECISION.fullmatch(n)} == set()
