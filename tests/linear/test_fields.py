"""Reading a text of a profile takes time and memory in proportion to its length, whatever the text is."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import tracemalloc

import pytest

from tests.linear.fields import READERS, TEXTS, Reader
from tests.linear.growth import growth, spent
from tests.support import ROOT

LENGTH = 4_000  # characters: the square of it is some ten milliseconds
MEASURABLE = 0.004  # seconds; what takes less does not grow with the square
KNOWN = {
    "kernel_details of 80 kB": ("kernel_details", "a" * 80_000),
    "GPU name of 300,000 brackets": ("GPU name", "(" * 300_000),
    "nested jvp(": ("op path, compiled", "jvp(" * 20_000 + ")" * 20_000),
    "op path of 124 kB": ("op path", "a/" * 62_000),
    "DLProf header of 1.35 MB": ("DLProf: header", "," * 1_350_000),
}
"""Inputs that took seconds, minutes or gigabytes."""


def too_slow(read: Reader, name: str) -> str | None:
    """Say how a text is read that takes three times as long at twice the length; None where none does."""
    long, short = TEXTS[name](LENGTH), TEXTS[name](LENGTH // 2)
    if spent(read, long) < MEASURABLE:
        return None
    times = growth(read, short, long, enough=3)
    return f"{name}: {times:.1f} times as long at twice the length" if times >= 3 else None


@pytest.mark.parametrize("field", READERS)
def test_twice_the_text_takes_twice_the_time(field: str) -> None:
    gc.disable()
    try:
        found = [said for name in TEXTS if (said := too_slow(READERS[field], name))]
    finally:
        gc.enable()
    assert not found


@pytest.mark.parametrize("known", KNOWN)
def test_known_inputs(known: str) -> None:
    field, text = KNOWN[known]
    assert spent(READERS[field], text) < 1.5


def test_memory_of_a_deep_path() -> None:
    tracemalloc.start()
    try:
        READERS["op path"]("a/" * 62_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


@pytest.mark.long
@pytest.mark.parametrize("field", READERS)
def test_long_texts_within_limits(field: str) -> None:
    code = (
        "import sys, time\nfrom tests.linear.fields import READERS, TEXTS\n"
        "for name, make in TEXTS.items():\n    text, begun = make(1_000_000), time.process_time()\n"
        "    READERS[sys.argv[1]](text)\n    assert time.process_time() - begun < 10, name\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, field],
        cwd=ROOT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert done.returncode == 0, done.stderr[-800:]
