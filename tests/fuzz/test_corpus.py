"""Every kept input ends as it must: with a report, or one error that names its file."""

from __future__ import annotations

import subprocess
import sys

from tests.fuzz import figures
from tests.fuzz.inputs import Input, kept
from tests.fuzz.targets import TARGETS
from tests.support import ROOT


def test_seeds_and_kept_inputs_break_nothing() -> None:
    """In an interpreter of its own: a fork of one that other tests have filled inherits their locks and memory."""
    command = [sys.executable, "-m", "tests.fuzz", "--replay"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 findings\n") == len(TARGETS), done.stdout


def test_the_corpus_is_small() -> None:
    assert sum(found.size for target in TARGETS for found in kept(target).values()) < 300_000


def test_every_target_has_seeds_and_figures() -> None:
    assert all(target.seeds() for target in TARGETS.values())
    assert set(figures.read()) <= set(TARGETS)


def test_an_input_has_one_digest_whatever_the_order_of_its_files() -> None:
    files = {"a": b"1", "b": b"2"}
    assert Input(files).digest == Input(dict(reversed(files.items()))).digest != Input({"a": b"12"}).digest
