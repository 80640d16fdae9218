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
OPEN = {
    "xspace/escape-in-error": "control characters in an error",
    "dlprof-csv/escape-in-cell": "control characters in an error",
    "dlprof-json/zero-width-in-figure": "control characters in an error",
    "calibration/bidi-version": "control characters in an error",
    "names/digits-of-shape": "more digits than Python converts",
    "settings/digits": "more digits than Python converts",
    "calibration/huge-whole-number": "a number too large for a float",
    "source/digits": "a number too large for a float",
    "calibration/deep-constants": "JSON too deep for Python's parser",
    "names/gpu-of-parentheses": "a pattern that is not linear",
    "names/path-of-slashes": "every scope of a path is joined anew",
}
"""What still breaks, and why."""


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_and_kept_inputs_break_nothing(target: str) -> None:
    mine = {name: made for name, made in EVERY.items() if name.startswith(f"{target}/")}
    mine |= {f"{target}/seed {number}": seed for number, seed in enumerate(TARGETS[target].seeds())}
    names = list(mine)
    tally = run(TARGETS[target], lambda n: (names[n], mine[names[n]]), range(len(names)), time.time() + 300)
    assert tally.inputs == len(names)
    broken = {f.key: f"{f.kind}: {f.detail}" for f in tally.findings}
    assert {name: what for name, what in broken.items() if name not in OPEN} == {}
    assert {name for name in OPEN if name in mine} <= broken.keys(), "mended: take it out of OPEN"


def test_the_corpus_is_small() -> None:
    assert sum(found.size for target in TARGETS for found in kept(target).values()) < 300_000


def test_every_target_has_seeds_and_figures() -> None:
    assert all(target.seeds() for target in TARGETS.values())
    assert set(figures.read()) <= set(TARGETS)


def test_an_input_has_one_digest_whatever_the_order_of_its_files() -> None:
    files = {"a": b"1", "b": b"2"}
    assert Input(files).digest == Input(dict(reversed(files.items()))).digest != Input({"a": b"12"}).digest
