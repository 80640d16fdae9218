"""Named baselines: a comparison with one has the figures of a comparison with the run, and its file tells no more."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis.compare import compare
from tcprobe.errors import TcprobeError, UnsupportedVersion, WrongFormat
from tcprobe.flows.baselines import baseline_of, read_baseline, write_entry
from tcprobe.flows.report import make_report
from tcprobe.schema.profile import Profile
from tests.cli.test_compare import timed
from tests.support import ROOT, shared

FIXTURES = ROOT / "tests/fixtures"
RUNS = ("gpu_run/run", "starting_case/run", "h100/jax_tf32.xplane.pb", "h100/jax_float32.xplane.pb",
        "xplane/two_gpus.xplane.pb", "xplane/cpu_graph.xplane.pb")  # fmt: skip


def kept(profile: Profile, folder: Path) -> tuple[Profile, str]:
    """Return what a baseline keeps of a profile, and its file."""
    out = io.StringIO()
    write_entry(baseline_of("main", profile), out)
    file = folder / "main.json"
    file.write_text(out.getvalue())
    return read_baseline(file).profile, out.getvalue()


def check_same(profile: Profile, other: Profile, folder: Path) -> None:
    baseline, _ = kept(profile, folder)
    for held, with_ in (((profile, other), (baseline, other)), ((other, profile), (other, baseline))):
        whole, short = compare(held, ("a", "b")), compare(with_, ("a", "b"))
        assert short.figures == whole.figures
        assert (short.per_step, short.ranges) == (whole.per_step, whole.ranges)
        assert [(r.name, r.sides, r.tc_ns) for r in short.layers] == [(r.name, r.sides, r.tc_ns) for r in whole.layers]
        last, of_whole = ([(one.name, one.last) for one in each.losses] for each in (short, whole))
        assert str(last) == str(of_whole)  # NaN is no NaN


@pytest.mark.parametrize("name", RUNS)
def test_it_compares_as_the_run_does(name: str, tmp_path: Path) -> None:
    profile = make_report(FIXTURES / name)
    check_same(profile, profile, tmp_path)
    check_same(profile, make_report(FIXTURES / RUNS[0]), tmp_path)


def test_noise_is_told_as_between_runs(tmp_path: Path) -> None:
    base, other = (make_report(timed(tmp_path / name, ms)) for name, ms in (("a", 10.0), ("b", 8.0)))
    check_same(base, other, tmp_path)
    found = compare((kept(base, tmp_path)[0], other), ("a", "b"))
    (step,) = (one for one in found.figures if one.metric == "step_time_ns")
    assert step.changes[0].difference == "faster" and step.changes[0].interval is not None
    assert not {"command", "host"} & {name for name, _ in found.settings}


def test_clocks_are_those_of_the_window_still(tmp_path: Path) -> None:
    run = make_report(FIXTURES / RUNS[0])
    columns = {"state_basis": "window", "sm_clock_mhz": 1005.0}
    base, other = (
        run.with_tables(run.require("devices").with_columns(**{name: [value] for name, value in each.items()}))
        for each in (columns, {**columns, "sm_clock_mhz": 1410.0})
    )
    check_same(base, other, tmp_path)
    codes = {note.code for note in compare((kept(base, tmp_path)[0], other), ("a", "b")).notes}
    assert "clocks-differ" in codes


def test_nsight_systems(tmp_path: Path) -> None:
    before, after = (make_report(shared(f"samples/nsys/h100x2_bf16_{n}_nsys2026.sqlite")) for n in ("before", "after"))
    check_same(before, after, tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_its_file_is_small_and_holds_no_path_and_no_secret(name: str, tmp_path: Path) -> None:
    profile = make_report(FIXTURES / name)
    secret = {"command": ["python", "/home/me/train.py"], "host": "node17", "environment": {"TF_X": "hunter2"}}
    run = {**profile.metadata.run, **secret, "retraces": [{"name": "f", "at_ns": 1, "source": "/home/me/x.py:3"}]}
    marked = profile.with_metadata(run=run, host="node17", command=("python", "/home/me/train.py"))
    text = kept(marked, tmp_path)[1]
    assert len(text) < 20_000
    assert not [word for word in ("/home/", "node17", "hunter2", "train.py", str(ROOT)) if word in text]


def test_another_version_of_tcprobe_is_told(tmp_path: Path) -> None:
    profile = make_report(FIXTURES / RUNS[0])
    _, text = kept(profile, tmp_path)
    (tmp_path / "old.json").write_text(json.dumps({**json.loads(text), "tcprobe": "0.0.9"}))
    runs = {name: read_baseline(tmp_path / f"{name}.json").profile for name in ("main", "old")}
    notes = {name: {n.code: n for n in compare((run, profile), (name, "b")).notes} for name, run in runs.items()}
    assert "baseline-version" not in notes["main"]
    assert notes["old"]["baseline-version"].message.startswith("old: tcprobe 0.0.9 wrote it, and this is ")


@cache
def whole() -> str:
    out = io.StringIO()
    write_entry(baseline_of("main", make_report(FIXTURES / "gpu_run/run")), out)
    return out.getvalue()


def damaged(**changed: Any) -> str:
    return json.dumps({**json.loads(whole()), **changed})


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("", WrongFormat, "is no baseline"),
        ("[]", WrongFormat, "it has no schema"),
        (damaged(schema=2), UnsupportedVersion, "is a baseline of schema 2; 1 is read"),
        (damaged(more=1), WrongFormat, "is a damaged baseline"),
        (damaged(window=3), WrongFormat, "is a damaged baseline"),
        (damaged(tables={"nosuch": {}}), WrongFormat, "is a damaged baseline"),
        (damaged(tables={"steps": {"step": [1]}}), WrongFormat, "is a damaged baseline"),
        (damaged(tables={"metrics": {"name": ["x"], "value": ["y"]}}), WrongFormat, "is a damaged baseline"),
        (damaged(tables={"causes": {"group": ["x"], "cause": ["x"]}}), WrongFormat, "has a value that is none of its"),
    ],
)
def test_a_damaged_file_is_told(text: str, error: type[TcprobeError], said: str, tmp_path: Path) -> None:
    file = tmp_path / "main.json"
    file.write_text(text)
    with pytest.raises(error, match=said) as raised:
        read_baseline(file)
    assert "tcprobe baseline NAME RUN" in str(raised.value.hint)
