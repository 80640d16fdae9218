"""How eager training is cut into parts, and when enough of it has been seen."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow.eager import parts as module
from tcprobe.probe.tensorflow.eager.parts import Body, EagerParts

VARIABLES = {name: SimpleNamespace(trainable=True) for name in "dg"}


class Sampler:
    """Records what `Rig.op` says."""

    def __init__(self) -> None:
        self.products: list[Any] = []
        self.paused = False

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


class Rig:
    """Eager training as a text: ``t`` a tape, its gradient as ``D`` or ``G``, ``a`` an optimizer, digits products."""

    def __init__(self) -> None:
        self.gaps = Gaps()
        self.samplers: list[Sampler] = []
        self.kept: dict[Any, list[Body]] = {}
        self.parts = EagerParts(self.make, lambda key, _, bodies: self.kept.update({key: bodies}), self.gaps)

    def make(self) -> Any:
        self.samplers.append(Sampler())
        return self.samplers[-1]

    def op(self, rows: int, layer: str = "dense") -> None:
        sampler: Any = self.parts.sampler
        if sampler is not None and not sampler.paused:
            sampler.products.append(SimpleNamespace(record=record(rows, layer)))

    def run(self, text: str) -> None:
        for sign in text:
            if sign.isdigit():
                self.op(int(sign))
            elif sign in "DG":
                self.parts.differentiated([VARIABLES[sign.lower()]])
            else:
                self.parts.begin(sign, sign, False, trains=sign in "abf", eager=sign != "f")

    def step(self, calls: dict[str, float]) -> Counter[int]:
        """Return the products of a step by their rows, given how often it calls each part."""
        found: Counter[int] = Counter()
        for key, bodies in self.kept.items():
            for body in bodies:
                for op in body.ops:
                    found[op["input_shapes"][0][0]] += calls[key] * body.share  # type: ignore[assignment]
        return found


def record(rows: int, layer: str = "dense") -> dict[str, Any]:
    shapes = {"input_shapes": [[rows, 4]], "output_shapes": [[rows, 4]], "input_dtypes": ["float32"]}
    return {"op": "MatMul", "op_type": "MatMul", "layer": layer, **shapes}


def test_a_step_that_was_seen_twice_alike_is_recorded() -> None:
    rig = Rig()
    rig.run("t1D2a3" * 2)
    assert rig.parts.sampler is not None
    rig.run("t")
    assert rig.parts.sampler is None
    assert rig.step({"t": 1, "a": 1}) == {1: 1, 2: 1, 3: 1}
    rig.run("1D2a3" + "t1D2a3" * 50)
    assert len(rig.samplers) == 1


def test_one_tape_of_two_models_runs_two_bodies() -> None:
    rig = Rig()
    rig.run("t1D2a" + "t3G4b" + "t1D2a" + "t3G4b" + "t")
    assert [body.share for body in rig.kept["t"]] == [0.5, 0.5]
    assert rig.step({"t": 2, "a": 1, "b": 1}) == {1: 1, 2: 1, 3: 1, 4: 1}


def test_a_model_that_comes_late_is_waited_for() -> None:
    rig = Rig()
    rig.run(("t1Da" * 5 + "t3Gb") * 6)
    assert rig.parts.sampler is None
    assert rig.step({"t": 6, "a": 5, "b": 1}) == {1: 5, 3: 1}


def test_a_part_that_came_once_is_not_waited_for_long() -> None:
    rig = Rig()
    rig.run("u5G" + "t1Da" * 6)
    assert rig.parts.sampler is None
    assert rig.step({"u": 0, "t": 1, "a": 1})[1] == 1


def test_what_a_tape_without_a_gradient_ran_belongs_to_the_part_before() -> None:
    rig = Rig()
    rig.run("t1Dau2" * 3 + "t1Dau2")
    assert (len(rig.samplers), rig.parts.sampler) == (1, None)
    assert rig.step({"t": 1, "a": 1}) == {1: 1, 2: 1}


def test_a_tape_that_never_takes_a_gradient_is_not_watched() -> None:
    rig = Rig()
    rig.run("u1" * 20)
    assert len(rig.samplers) == 1
    rig.run("u1D" * 4)
    assert rig.step({"u": 1}) == {1: 1}


def test_validation_between_two_steps_is_none_of_the_step() -> None:
    rig = Rig()
    rig.run("t1Da" + "t1Da9" + "t1Da" * 2 + "t")
    assert rig.parts.sampler is None
    assert rig.step({"t": 1, "a": 1}) == {1: 1}


def test_what_runs_while_it_pauses_is_not_recorded() -> None:
    rig = Rig()
    for _ in range(3):
        rig.run("t1Da")
        rig.parts.pause(True)
        rig.parts.called("evaluate")
        rig.run("9")
        rig.parts.pause(False)
    rig.run("t")
    assert rig.step({"t": 1, "a": 1}) == {1: 1}
    assert not rig.kept["a"][0].calls


def test_sizes_in_which_steps_differ_are_unknown() -> None:
    rig = Rig()
    rig.run("t85D" + "t25D" + "t85D" + "t")
    assert rig.step({"t": 1}) == {None: 1, 5: 1}
    assert [shapes for op in rig.kept["t"][0].ops for shapes in op["output_shapes"]] == [[None, 4], [5, 4]]
    assert [note["code"] for note in rig.gaps.notes] == ["eager-sizes"]


@pytest.mark.parametrize(
    ("layers", "rows", "rest", "code"),
    [
        (True, [8] * 12, 8, []),
        (True, [8] * 11 + [5], 8, ["eager-sizes"]),  # the last batch of an epoch
        (True, [8, 5, 3] * 4, None, ["eager-sizes"]),
        (False, [8] * 12, 8, ["eager-sizes"]),  # nobody sees the sizes
    ],
)
def test_steps_of_the_window_are_held_against_those_recorded(
    layers: bool, rows: list[int], rest: int | None, code: list[str]
) -> None:
    rig = Rig()
    for count in [8, 8, None, *rows, 8]:
        rig.parts.profiled = rig.parts.profiled or count is None
        if count is not None:
            rig.run(f"t{count}")
            if layers:
                rig.parts.sized("dense", ((count, 4),))
            rig.run("Da")
    rig.parts.window_closes()
    assert [op["input_shapes"] for body in rig.kept["t"] for op in body.ops] == [[[rest, 4] if rest else None]]
    assert [note["code"] for note in rig.gaps.notes] == code
    assert all(note["level"] == ("note" if rest else "warning") for note in rig.gaps.notes)


def test_a_function_called_in_a_part_is_counted_with_it() -> None:
    rig = Rig()
    for _ in range(2):
        rig.run("t1")
        rig.parts.called("forward")
        rig.run("D")
    rig.run("t")
    assert rig.kept["t"][0].calls == {"forward": 1}


def test_what_runs_after_a_function_that_trains_is_a_part_of_its_own() -> None:
    rig = Rig()
    rig.run("f1" * 4)
    assert rig.samplers == []
    rig.run("t2Df1" * 2 + "t")
    assert rig.step({"t": 1, "f": 1}) == {1: 1, 2: 1}


def test_a_run_that_ends_early_tells_what_it_saw() -> None:
    rig = Rig()
    rig.run("t1Da2t1Da")
    rig.op(9)
    rig.parts.end()
    assert rig.step({"t": 1, "a": 1}) == {1: 1, 2: 1}


def test_a_new_model_in_known_lines_is_recorded() -> None:
    rig = Rig()
    rig.run("t1D" * 4)
    assert rig.parts.sampler is None
    rig.run("t7G" * 4)
    assert (rig.parts.sampler, rig.step({"t": 1})) == (None, {7: 1})


def test_a_run_that_never_repeats_is_left_alone_after_a_while(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "MOST_PARTS", 6)
    rig = Rig()
    for number in range(500):
        rig.run("t")
        rig.op(1, f"layer_{number}")
        rig.parts.differentiated(VARIABLES["d"])
    assert rig.parts.sampler is None
    assert sum(len(sampler.products) for sampler in rig.samplers) == 6


def test_changing_variables_do_not_sample_for_ever() -> None:
    rig = Rig()
    variables = [SimpleNamespace(trainable=True) for _ in range(2000)]
    for variable in variables:
        rig.run("t1")
        rig.parts.differentiated(variable)
    assert rig.parts.sampler is None
    assert [gap["hook"] for gap in rig.gaps.gaps] == ["eager steps"]
    assert rig.step({"t": 1}) == {1: 1}


def test_nothing_is_recorded_once_it_is_closed() -> None:
    rig = Rig()
    rig.run("t1D")
    rig.parts.close(True)
    rig.run("u1D" * 4)
    assert len(rig.samplers) == 1
    rig.parts.close(False)
    rig.run("u1D" * 4)
    assert set(rig.kept) == {"t", "u"}


@pytest.mark.parametrize(
    ("lengths", "mean", "told"),
    [
        ("33333", 3.0, False),
        ("133333", 3.0, False),  # the first makes variables
        ("12345678912345678" * 2, 73 / 16, True),  # the 16 steps after which it is clear that they vary
        ("2946" + "35" * 20, 4.0, True),  # two by turns, surely
        ("2" + "4" * 9 + "6666", 4.0, False),
        ("1527" + "4444", 4.0, False),
    ],
    ids=str,
)
def test_steps_that_run_as_many_products_as_it_takes(lengths: str, mean: float, told: bool) -> None:
    """An episode of an environment calls its network as often as it lasts."""
    rig = Rig()
    for length in map(int, lengths):
        rig.run("t" + "1" * length + "D" + "a")
    rig.run("t")
    assert rig.parts.sampler is None
    assert rig.step({"t": 1, "a": 1})[1] == mean
    assert any(note["code"] == "eager-products" for note in rig.gaps.notes) == told
