"""Plan a sweep: what lists mean, which combinations remain, in which order they run, what each run is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tcprobe.errors import UsageError
from tcprobe.flows.profile import ProfileOptions
from tcprobe.flows.sweep.plan import SweepOptions, environment_of, options_of, plan_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("FAST = True\nSIZE = 3\n")


def asked(*words: str, lists: dict[str, str] | None = None, **more: Any) -> SweepOptions:
    return SweepOptions(ProfileOptions(words or ("train.py", "--steps", "8")), lists or {}, **more)


EVERY = asked(
    lists={"precision": "float32,mixed_float16", "xla": "on"},
    vary=['--sizes=good,"a,b"', "--augment", "-b=1", "lr=2"],
    vary_env=["TF_X=0,1"],
    vary_constant=["FAST=True,False"],
    exclude=["precision=float32,augment=off", "FAST=False,TF_X=1"],
    repeat=2,
)


def test_all_combinations_but_those_excluded_run_in_turn() -> None:
    plan = plan_of(EVERY)
    assert [(f.name, f.kind, f.values) for f in plan.factors] == [
        ("precision", "option", ("float32", "mixed_float16")),
        ("xla", "option", ("on",)),
        ("sizes", "argument", ("good", "a,b")),
        ("augment", "argument", ("on", "off")),
        ("b", "argument", ("1",)),
        ("lr", "argument", ("2",)),
        ("TF_X", "environment", ("0", "1")),
        ("FAST", "constant", ("True", "False")),
    ]
    # of 2 x 2 x 2 x 2 x 2 = 32 a quarter has float32 without --augment, and a quarter of the rest the other pair
    assert (len(plan.combinations), plan.excluded, plan.baseline) == (18, 14, 1)
    order = [(run.repeat, run.combination) for run in plan.runs]
    numbers = [one.number for one in plan.combinations]
    assert order == [(turn, number) for turn in (1, 2) for number in numbers]
    assert len({run.folder for run in plan.runs}) == 36


def test_each_run_is_given_its_values() -> None:
    plan = plan_of(EVERY)
    last = plan.runs[-1]
    assert plan.combination(last.combination).values[:4] == ("mixed_float16", "on", "a,b", "off")
    made = options_of(EVERY.base, plan, last, Path("home"))
    assert made.words == ("train.py", "--steps", "8", "--sizes=a,b", "-b", "1", "lr=2")
    assert (made.precision, made.xla, made.constants) == ("mixed_float16", True, (("FAST", "True"),))
    assert (made.output, made.launcher) == (Path("home") / last.folder, ())
    assert environment_of(plan, last) == {"TF_X": "1"}
    assert last.folder == "c31-r2-mixed_float16-on-a_b-off-1-2-1-True"
    first = options_of(ProfileOptions(EVERY.base.words, launcher=("docker", "run")), plan, plan.runs[0], Path("home"))
    assert first.words[3:] == ("--sizes=good", "--augment", "-b", "1", "lr=2")
    assert first.launcher == ("docker", "run", "env", "TF_X=0")


def test_the_first_so_many_run_against_the_chosen_one() -> None:
    plan = plan_of(asked(vary=["--a=1,2,3"], limit=2, baseline="a=2"))
    assert ([one.values for one in plan.combinations], plan.limited, plan.baseline) == ([("1",), ("2",)], 1, 2)


def test_a_secret_is_no_part_of_a_name() -> None:
    runs = plan_of(asked(vary=["--api-key=hunter2,swordfish"])).runs
    assert [run.folder for run in runs] == ["c01-r1-_", "c02-r1-_"]


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({}, "nothing is varied", "as in --precision"),
        ({"vary": ["--sizes=good"]}, "nothing is varied", "--vary"),
        ({"vary": ["--sizes="]}, "--vary --sizes: an empty list", "commas"),
        ({"vary": ["--sizes=a,,b"]}, "an empty value in 'a,,b'", "commas"),
        ({"vary": ['--sizes="a,b']}, "is no list of values: unexpected end of data", "commas"),
        ({"vary": ["--sizes=a\nb"]}, "is no list of values: new-line", "commas"),
        ({"vary": ["--sizes=a,a"]}, "a value stands twice in 'a,a'", "--repeat"),
        ({"vary": ["=a,b"]}, "--vary '=a,b': expected a name and its values", '--vary "--sizes=good,bad"'),
        ({"vary": ["--s=1,2", "--s=3"]}, "s is varied twice", "one list"),
        ({"vary": ["--steps=8,9"]}, "--steps is varied, and the workload's own arguments set it", "leave one"),
        (
            {"lists": {"precision": "float32,float16"}},
            "--precision: 'float16' is none",
            "there are float32, tf32, mixed_f",
        ),
        ({"lists": {"xla": "on,x"}}, "--xla: 'x' is none of its values", "there are on, off"),
        ({"lists": {"precision": ""}}, "--precision: an empty list", "commas"),
        (
            {"lists": {"precision": "tf32,float32"}, "vary": ["--precision=a,b"]},
            "precision is varied twice",
            "one list",
        ),
        ({"vary_env": ["TF_X"]}, "--vary-env 'TF_X': expected a name", "NAME=a,b"),
        ({"vary_constant": ["FAST=a b,1"]}, "a b is no literal of Python", "FAST='a b'"),
        ({"vary_constant": ["FSAT=1,2"]}, "train.py: FSAT is assigned nowhere", "did you mean FAST?"),
        ({"vary": ["--a=1,2"], "exclude": ["b=1"]}, "'b=1' names nothing that is varied", "varied are a"),
        ({"vary": ["--ab=1,2"], "exclude": ["a=1"]}, "'a=1' names nothing that is varied", "did you mean ab?"),
        ({"vary": ["--a=1,2"], "exclude": ["a=3"]}, "a is never 3", "it is 1, 2"),
        ({"vary": ["--a=1,2"], "exclude": ["a=1", "a=2"]}, "--exclude leaves no combination", "exclude fewer"),
        ({"vary": ["--a=1,2"], "exclude": ["a=1"], "baseline": "a=1"}, "--baseline 'a=1': no combination", "--dry-run"),
        ({"vary": [f"--{name}={','.join('0123456789')}" for name in "abcd"]}, "10,000 combinations", "vary less"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_of(asked(**options))
    assert said in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_packaged_workload_has_its_precision_once() -> None:
    options = asked("train_gan", "--precision", "tf32", lists={"precision": "float32,tf32"})
    with pytest.raises(UsageError, match="--precision is varied, and the workload's own arguments set it"):
        plan_of(options)
    with pytest.raises(UsageError, match="constants are changed of a script"):
        plan_of(asked("-m", "json.tool", vary_constant=["A=1,2"]))
