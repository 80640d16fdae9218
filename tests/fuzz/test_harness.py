"""The fuzzer finds what is planted: a target with each defect, and the class that it must tell."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz import figures, keep
from tests.fuzz.door import Call, Said
from tests.fuzz.inputs import Input, packed, unpacked
from tests.fuzz.mutate import cells
from tests.fuzz.mutate.chance import Chance
from tests.fuzz.runner import Finding, Limits, Tally, run
from tests.fuzz.targets import Target

LIMITS = Limits(0.3, 2 << 30, 1.0)
BAD = b"bad"


def toy(defect: Callable[[], Said | None], format_: str = "text") -> Target:
    """Return a target whose reader has a defect that the input ``bad`` wakes."""

    def calls(made: Input, folder: Path) -> Iterator[Call]:
        yield Call(("report", str(folder / "x")), format_)

    def door(verb: str, path: str) -> Said:
        found = defect() if BAD in Path(path).read_bytes() else None
        return found or Said(0, b"{}\n", b"")

    return Target("toy", "a toy", lambda: [Input({"x": b"good"})], calls, door=door)


def kinds(target: Target, content: bytes = BAD) -> list[str]:
    """Return the classes of findings of three inputs, of which the second is bad."""
    made = [Input({"x": c}) for c in (b"good 1", content, b"good 2")]
    tally = run(target, lambda n: (str(n), made[n]), range(3), time.time() + 60, LIMITS)
    assert tally.inputs >= 2 and {f.key for f in tally.findings} <= {"1"}
    return [f.kind for f in tally.findings]


def fails(code: int, error: bytes) -> Callable[[], Said]:
    return lambda: Said(code, b"", error)


def prints(out: bytes, error: bytes = b"") -> Callable[[], Said]:
    return lambda: Said(0, out, error)


def eat() -> None:
    held = []
    while True:
        held.append(bytes(1 << 28))


def raise_bug() -> Said:
    try:
        raise KeyError("planted")
    except KeyError as error:
        return Said(3, b"", b"", error)


def loop() -> None:
    while True:
        pass


def loop_in_c() -> None:
    sum(itertools.repeat(0))


DEFECTS: dict[str, tuple[Callable[[], Said | None], str]] = {
    "a bug": (raise_bug, r"exit 3: KeyError at .*:\d+"),
    "another exit code": (fails(7, b""), "exit 7"),
    "an endless loop": (loop, "too slow at .*"),
    "an endless loop in C": (loop_in_c, "too slow, in code that is not Python's"),
    "a wait": (lambda: time.sleep(60), "waits for something"),  # type: ignore[func-returns-value]
    "memory": (eat, "memory at .*"),
    "a death": (lambda: os._exit(9), "killed: exit 9"),
    "a write": (lambda: Path("outside").write_text("x") and None, "watched: opens for writing outside"),
    "a removal": (lambda: Path(__file__).with_name("none").unlink(missing_ok=True), "watched: os.remove none"),  # type: ignore[func-returns-value]
    "a program": (lambda: subprocess.run(["true"]) and None, "watched: subprocess.Popen"),
    "an escape": (prints(b"\x1b[2J\n"), "text: control character"),
    "a bidi mark": (prints("\u202e\n".encode()), "text: formatting character"),
    "an escape in an error": (fails(2, b"tcprobe: error: \x1b[2J\n"), "stderr: control character"),
    "two lines": (fails(2, b"tcprobe: error: a\nb\n"), "stderr: more than one line"),
    "a warning": (prints(b"", b"x.py:1: RuntimeWarning: overflow\n"), "stderr: RuntimeWarning"),
    "no message": (fails(2, b""), "stderr: no error for exit 2"),
    "no UTF-8": (prints(b"\xff\n"), "text: no UTF-8"),
    "NaN": (prints(b"takes nan ms\n"), "text: NaN or infinity"),
}
DOCUMENTS = {
    b"{": "json: does not parse",
    b'{"x": NaN}': "json: does not parse",
    b'{"tc_kernel_time_pct": 100.1}': "json: tc_kernel_time_pct outside 0-100",
    b'[{"sum_ns": -1}]': "json: sum_ns below 0",
    b'{"calls": 1.5}': "json: calls not whole",
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str) -> None:
    defect, kind = DEFECTS[name]
    (found,) = kinds(toy(defect))
    assert re.fullmatch(kind, found), found


@pytest.mark.parametrize("text", DOCUMENTS)
def test_a_wrong_document_is_found(text: bytes) -> None:
    assert kinds(toy(prints(text), "json")) == [DOCUMENTS[text]]


def test_an_error_names_its_file() -> None:
    error = Said(2, b'{"error": {"code": "E203", "message": "it is damaged"}}', b"tcprobe: error: it is damaged\n")
    assert kinds(toy(lambda: error, "json")) == ["error: does not name the file"]


def test_what_differs_the_second_time_is_found() -> None:
    content = next(c for c in (BAD + b"%d" % n for n in itertools.count()) if Input({"x": c}).digest_number % 40 == 0)
    times = itertools.count()
    assert kinds(toy(lambda: Said(0, b"%d" % next(times), b"")), content) == ["text: differs the second time"]


def test_a_good_target_gives_nothing_and_counts() -> None:
    tally = run(toy(lambda: None), lambda n: (str(n), Input({"x": b"%d" % n})), range(1100), time.time() + 60, LIMITS)
    assert (tally.inputs, tally.findings) == (1100, []) and tally.peak_bytes > 1 << 20


def test_after_a_death_the_next_process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the time is over; not where one dies of the same input again, or before its first."""
    dies, other = Finding("a", "killed: SIGXCPU", ""), Finding("b", "killed: SIGXCPU", "")

    def guided(*series: Tally) -> Tally:
        left = iter(series)
        monkeypatch.setattr(fuzz, "_by_atheris", lambda *_: next(left))
        monkeypatch.setattr(fuzz, "_tell", lambda *_: None)
        tally = fuzz._guided(toy(lambda: None), time.time() + 60, "", argparse.Namespace())
        assert next(left, None) is None
        return tally

    first, second = Tally(5, findings=[dies]), Tally(5, findings=[other])
    assert guided(first, Tally(7), second, Tally(1, findings=[dies])).inputs == 18
    assert guided(Tally(4), Tally(0, findings=[dies])).findings == [dies]


def test_an_input_is_one_text_of_bytes() -> None:
    made = Input({"a/b": bytes(range(256)), "c": b""})
    assert unpacked(packed(made)) == made and unpacked(b"[" * 100_000) is None and unpacked(b"[]") is None


def test_the_last_series_is_recorded_beside_the_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FILE", tmp_path / "figures.json")
    figures.record("nsys", Tally(10, findings=[Finding("a", "exit 3", "")]), "mutate")
    figures.record("nsys", Tally(7), "atheris")
    assert figures.read()["nsys"]["last"] == {"engine": "atheris", "inputs": 7, "findings": 0}
    assert "| 17 | 0 min | 1 |" in figures.section() and ": 7 by atheris, 0 found |" in figures.section()


def test_an_input_is_made_small() -> None:
    made = Input({"x": b"a" * 40 + BAD + b"c" * 40, "y": b"left over"})
    assert keep.smaller(toy(raise_bug), made, limits=LIMITS).files == {"x": BAD}


def test_one_seed_gives_the_same_inputs_each_time() -> None:
    command = [sys.executable, "-c", "from tests.fuzz.test_harness import digests; print(digests())"]
    said = [
        subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
        for seed in ("1", "2")
    ]
    assert said[0].stdout == said[1].stdout and len(said[0].stdout) > 100


def digests() -> list[str]:
    """Return what tells the first inputs of each target."""
    from tests.fuzz.source import generated
    from tests.fuzz.targets import TARGETS

    return [source(n)[1].digest for t in TARGETS.values() for source in [generated(t, "s", False)] for n in range(3)]


class Repeats(Chance):
    """Chance that repeats the cells of a row as often as it may, four times over."""

    def random(self) -> float:
        return 0.92

    def choice(self, options: Any) -> Any:
        return options[-1]


def test_a_table_that_grows_without_end_is_given_up() -> None:
    with pytest.raises(MemoryError):
        cells.mutated(b"a,b\n1,2\n", Repeats("x"))
