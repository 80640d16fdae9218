"""What the script prints is passed on always, and searched as long as it is no flood."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.script.tee import A_WRITE, BUDGET, Patterns, Tee


class Stream(io.StringIO):
    """A stream with attributes of its own, as standard output has."""


class Heard:
    """A tee on one stream, and what it found."""

    def __init__(self) -> None:
        self.figures: list[float] = []
        self.gaps, self.stream, self.now = Gaps(), Stream(), 0
        self.tee = Tee(Patterns([]), lambda: self.now, lambda _: 0, self._found, self.gaps)
        self.tee.listen(self.stream)

    def _found(self, _step: int, _name: str, value: float, _unit: str) -> None:
        self.figures.append(value)

    @property
    def is_listening(self) -> bool:
        return "write" in vars(self.stream)


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_a_flood_is_passed_on_and_searched_in_part(heard: Heard) -> None:
    line = "loss: 0.5 " + "x" * 89 + "\n"
    lines = 3 * BUDGET // len(line)
    for _ in range(lines):
        heard.stream.write(line)
    assert heard.stream.getvalue() == line * lines
    assert not heard.is_listening  # nothing stands between the script and its stream
    heard.now = 2 * 10**9
    heard.tee.drain()
    assert len(heard.figures) == BUDGET // (len(line) + A_WRITE)
    assert heard.is_listening
    (note,) = heard.gaps.notes
    assert note["message"].startswith("the workload printed more than 250 kB/s for about 2.0 s")


def test_no_line_is_searched_of_which_a_part_went_by(heard: Heard) -> None:
    heard.stream.write("loss: 1")
    heard.stream.write("x" * BUDGET)
    heard.tee.drain()
    heard.stream.write("5 loss: 2")
    heard.tee.drain()
    heard.stream.write("7\nloss: 3\rloss: 4\n")
    heard.tee.drain()
    assert heard.figures == [3, 4]


@pytest.mark.parametrize("text", ["x" * 50_000_000, "\r" * BUDGET])
def test_one_write_of_much_is_not_kept(heard: Heard, text: str) -> None:
    assert heard.stream.write(text) == len(text)
    assert [held for _, _, held in heard.tee._waiting] == [None]


def test_writes_of_one_character_are_bounded(heard: Heard) -> None:
    write = heard.stream.write  # as a script keeps it
    for _ in range(BUDGET):
        write("x")
    assert len(heard.stream.getvalue()) == BUDGET
    assert len(heard.tee._waiting) <= BUDGET // A_WRITE


def test_what_a_script_puts_in_front_stays(heard: Heard) -> None:
    ours, said = heard.stream.write, list[str]()

    def own(text: str) -> int:
        said.append(text)
        return ours(text)

    heard.stream.write = own  # type: ignore[method-assign]
    for step in (lambda: heard.stream.write("x" * BUDGET), heard.tee.drain, heard.tee.stop):
        _do(step)
        assert vars(heard.stream)["write"] is own
    assert heard.stream.getvalue() == said[0]


def _do(step: Callable[[], object]) -> None:
    step()


def test_a_stream_that_is_opened_in_a_flood_is_heard_later(heard: Heard) -> None:
    heard.stream.write("x" * BUDGET)
    other = Stream()
    heard.tee.listen(other)
    other.write("loss: 1\nval_")
    heard.tee.drain()
    other.write("loss: 1\nloss: 2\n")
    heard.tee.drain()
    assert heard.figures == [2]
    heard.tee.stop()
    heard.tee.drain()
    assert not heard.is_listening
