"""Every kept input ends as it must: with a report, or one error that names its file."""

from __future__ import annotations

import time

import pytest

from tests.fuzz import figures
from tests.fuzz.inputs import Input, kept
from tests.fuzz.made import MADE
from tests.fuzz.runner import run
from tests.fuzz.targets import TARGETS

EVERY = {f"{target}/{name}": found for target in TARGETS for name, found in kept(target).items()} | MADE


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_and_kept_inputs_break_nothing(target: str) -> None:
    mine = {name: made for name, made in EVERY.items() if name.startswith(f"{target}/")}
    mine |= {f"{target}/seed {number}": seed for number, seed in enumerate(TARGETS[target].seeds())}
    names = list(mine)
    tally = run(TARGETS[target], lambda n: (names[n], mine[names[n]]), range(len(names)), time.time() + 300)
    assert tally.inputs == len(names)
    assert {f.key: f"{f.kind}: {f.detail}" for f in tally.findings} == {}


def test_the_corpus_is_small() -> None:
    assert sum(found.size for target in TARGETS for found in kept(target).values()) < 300_000


def test_every_target_has_seeds_and_figures() -> None:
    assert all(target.seeds() for target in TARGETS.values())
    assert set(figures.read()) <= set(TARGETS)


def test_an_input_has_one_digest_whatever_the_order_of_its_files() -> None:
    files = {"a": b"1", "b": b"2"}
    assert Input(files).digest == Input(dict(reversed(files.items()))).digest != Input({"a": b"12"}).digest
