"""Which eager tapes train, and whether their phases are balanced, on tapes that compute nothing."""

from __future__ import annotations

from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.core.framework import Core
from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.core.journal import CallLog
from tcprobe.probe.core.threads import Threads
from tcprobe.probe.tensorflow.eager.parts import EagerParts
from tcprobe.probe.tensorflow.hooks.calls import Calls
from tcprobe.probe.tensorflow.hooks.layers import LayerHooks
from tcprobe.probe.tensorflow.hooks.patch import around
from tcprobe.probe.tensorflow.profiler import LayerRanges
from tcprobe.probe.tensorflow.tapes import EagerTapes
from tests.probe.tensorflow.eager.test_parts import Sampler


class Ranges:
    """Writes down what begins and ends."""

    def __init__(self) -> None:
        self.active = True
        self.seen: list[str] = []

    def begin_phase(self, name: str, mark: str = "") -> None:
        self.seen.append(mark + name)

    def end_phase(self) -> None:
        self.seen.append("/")

    def end_step(self) -> None:
        self.seen.append("end of step")


class Training:
    """Counts calls of lines that train."""

    def __init__(self) -> None:
        self.enabled, self.owner = True, None
        self.threads = Threads(CallLog(""))
        self.counted: list[Any] = []
        self.added = 0
        self.stepper = SimpleNamespace(is_inside_step=lambda: False)

    def add(self, name: str, eager: bool, begins: bool = True) -> Any:
        self.added += 1
        return SimpleNamespace(key=(name, self.added), name=name, eager=eager, training=False)

    def count(self, callee: Any, _: int = 0) -> None:
        self.counted.append(callee.key)


class Rig:
    """Hooks a tape of its own."""

    def __init__(self) -> None:
        class Tape:
            def __init__(self, persistent: bool = False) -> None:
                self._persistent, self._recording = persistent, False

            def __enter__(self) -> Any:
                self._recording = True
                return self

            def __exit__(self, *_: object) -> None:
                self._recording = False

            def gradient(self, target: Any, sources: Any) -> Any:
                self._recording = self._recording and self._persistent
                if target is None:
                    raise ValueError("no target")
                return sources

        self.gaps, self.ranges, self.training, self.tape = Gaps(), Ranges(), Training(), Tape
        parts = EagerParts(lambda: Sampler(), lambda *_: None, self.gaps)  # type: ignore[arg-type,return-value]
        core: Any = Core(SimpleNamespace(step_function=None), self.gaps, self.ranges, self.training)  # type: ignore[arg-type]
        recorder: Any = SimpleNamespace(parts=parts, layers=SimpleNamespace())
        self.hooks = Calls(self.gaps, self.training.threads.is_inside)
        self.tapes = EagerTapes(core, recorder, self.hooks, self.training.count)
        function = type("Function", (), {"__call__": lambda _: None})
        tf = SimpleNamespace(GradientTape=Tape, executing_eagerly=lambda: True, function=lambda _: function())
        self.hooks.install(tf)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_phases_of_a_step(rig: Rig) -> None:
    with rig.tape() as tape:
        pass
    tape.gradient(1, [2])
    assert rig.ranges.seen == ["forward", "/", "backward", "/"]


def test_nested_tapes_are_one_forward_pass(rig: Rig) -> None:
    for _ in range(2):
        with rig.tape() as outer:
            with rig.tape() as inner:
                pass
            inner.gradient(1, [2])
        outer.gradient(1, [2])
    assert rig.ranges.seen == ["forward", "backward", "/", "/", "backward", "/"] * 2
    assert len(rig.training.counted) == 2


def test_phases_end_where_the_script_raises_or_breaks(rig: Rig) -> None:
    for _ in range(2):
        with rig.tape():
            break
    with pytest.raises(KeyError), rig.tape():
        raise KeyError
    with rig.tape() as tape:
        pass
    with pytest.raises(ValueError, match="no target"):
        tape.gradient(None, [])
    assert rig.ranges.seen == ["forward", "/"] * 3 + ["backward", "/"]
    assert rig.hooks.tape is None
    assert rig.gaps.gaps == []


def test_a_tape_that_is_entered_by_hand_ends_with_its_gradient(rig: Rig) -> None:
    for _ in range(3):
        tape = rig.tape()
        tape.__enter__()
        tape.gradient(1, [2])
    assert rig.ranges.seen == ["forward", "backward", "/", "/"] * 3
    assert len(rig.training.counted) == 3


def test_a_persistent_tape_stays_until_it_is_left(rig: Rig) -> None:
    with rig.tape(persistent=True) as tape:
        tape.gradient(1, [2])
        tape.gradient(1, [3])
    assert rig.ranges.seen == ["forward", "backward", "/", "backward", "/", "/"]


def test_a_tape_may_be_entered_twice_in_a_step_and_once_in_each(rig: Rig) -> None:
    tape = rig.tape(persistent=True)
    for _ in range(3):
        with tape:
            pass
        with tape:  # to scale the loss
            pass
        tape.gradient(1, [2])
    assert rig.ranges.seen == ["forward", "/", "backward", "/"] * 3
    assert len(rig.training.counted) == 3


def test_a_tape_whose_gradient_is_never_taken_does_not_train(rig: Rig) -> None:
    for _ in range(3):
        with rig.tape():
            pass
        with rig.tape() as tape:
            pass
        tape.gradient(1, [2])
    assert len(set(rig.training.counted)) == 1
    assert len(rig.training.counted) == 3


def test_two_tapes_before_their_gradients_both_train(rig: Rig) -> None:
    for _ in range(3):
        with rig.tape() as first:
            pass
        with rig.tape() as second:
            pass
        first.gradient(1, [2])
        second.gradient(1, [2])
    assert len(set(rig.training.counted)) == 2


class Variable:
    """A variable with a number that no other has."""

    count = 0

    def __init__(self) -> None:
        Variable.count += 1
        self.handle = SimpleNamespace(_id=Variable.count)


def parts_of(rig: Rig, *updates: list[Any]) -> list[Any]:
    """Return what these updates counted as."""
    rig.training.owner = get_ident()
    for variables in updates:
        ends = rig.tapes.applies(variables)
        assert rig.training.threads.is_inside()
        ends()
        assert not rig.training.threads.is_inside()
    return rig.training.counted[-len(updates) :]


def test_updates_of_the_same_variables_are_one_part_in_any_order(rig: Rig) -> None:
    one, two, three = Variable(), Variable(), Variable()
    parts = parts_of(rig, [one, two], [two, one], [one, three], [one, two], [three, one])
    assert [parts.index(part) for part in parts] == [0, 0, 2, 0, 2]
    assert rig.ranges.seen == ["optimizer", "/"] * 5


def test_a_variable_in_the_place_of_one_that_is_gone_is_another(rig: Rig) -> None:
    kept = Variable()
    seen: set[Any] = set()
    ids: set[int] = set()
    for _ in range(50):
        variable = Variable()
        ids.add(id(variable))
        for _ in range(2):
            seen.update(parts_of(rig, [kept, variable]))
        del variable
    assert len(ids) < 50, "no variable took the place of another"
    assert len(seen) == 50


def test_what_is_no_variable_is_asked_anew_each_time(rig: Rig) -> None:
    assert len(set(parts_of(rig, [3.5], ["w", Variable()], [3.5]))) == 2
    assert rig.gaps.gaps == []


def test_validation_is_a_phase_outside_any_step(rig: Rig) -> None:
    validate = around(rig.gaps, "ranges", rig.tapes.validates)(
        lambda inner: [inner and inner(None), rig.tapes.is_idle()]
    )
    assert validate(validate) == [[None, False], False]
    assert rig.tapes.is_idle()
    with pytest.raises(TypeError):
        validate(3)
    assert rig.tapes.is_idle()
    assert rig.ranges.seen == ["end of step", "validation", "/"] * 2


def test_layers_and_input_are_marked_between_open_and_close() -> None:
    class Layer:
        name = "dense"

        def __call__(self, broken: bool) -> None:
            if broken:
                raise KeyError

    class Iterator:
        def _next_internal(self) -> int:
            raise StopIteration

    ranges: Any = Ranges()
    hooks = LayerHooks(Gaps())
    hooks.install(SimpleNamespace(layers=SimpleNamespace(Layer=Layer)))
    marks = LayerRanges(hooks, ranges, Gaps())
    marks.iterator = Iterator
    Layer()(False)
    marks.open()
    Layer()(False)
    with pytest.raises(KeyError):
        Layer()(True)
    hooks.sampling = True  # an eager step is recorded in the window
    Layer()(False)
    hooks.sampling = False
    with pytest.raises(StopIteration):
        Iterator()._next_internal()
    ranges.active = False
    Layer()(False)
    marks.close()
    Layer()(False)
    assert ranges.seen == ["layer dense", "/", "layer dense", "/", "layer dense", "/", "input", "/"]
    assert hooks.current() is None
