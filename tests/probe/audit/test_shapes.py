"""Shapes that the user gave, and what they are the shapes of."""

from __future__ import annotations

from typing import Any

from tcprobe.probe.audit.step import GivenShapes


class Two:
    """A model of two inputs."""

    def call(self, first: Any, second: Any, training: bool = False) -> Any:
        """Take both."""


def test_a_name_comes_before_any_and_the_shape_must_fit() -> None:
    given = GivenShapes([(None, [64]), ("image", [224, 224, 3]), ("net", [128])])
    assert given.of_input([None, None, 3], ("image", "net")) == [224, 224, 3]
    assert given.of_input([None, None, 4], ("image", "net")) is None
    assert given.of_input([None], ("other", "net")) == [128]
    assert given.of_input([None], ("other",)) == [64]


def test_the_arguments_of_a_call_by_name_else_the_first() -> None:
    assert GivenShapes([("second", [4]), ("first", [3])]).of_call(Two(), ("two",)) == {"": [3], "second": [4]}
    assert GivenShapes([(None, [5]), ("Two", [6])]).of_call(Two(), ("two", "Two")) == {"": [6]}
    assert GivenShapes([(None, [5])]).of_call(Two(), ("two",)) == {"": [5]}
    assert GivenShapes([("other", [5])]).of_call(Two(), ("two",)) == {}


def test_what_the_user_says_against_the_code_is_told_and_names_are_answered() -> None:
    given = GivenShapes([("image", [32, 32, 1]), ("image", [32, 32, 1]), ("other", [5])])
    assert given.of_input([None, None, 3], ("image", "net")) is None
    assert given.of_input([8], ("", "told")) is None
    assert given.remarks == ["--input-shape 32,32,1 is not taken for image: its shape is ?,?,3 in the code"]
    assert given.inputs == ["image"]
    assert given.answered(["image", "net"]) == ["image"]
