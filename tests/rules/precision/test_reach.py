"""Where a policy holds that a file sets: in all of it, in one function and what it calls, or until it is set back."""

from __future__ import annotations

import ast

import pytest

from tcprobe.rules.precision.policy import tree_of
from tcprobe.rules.precision.reach import Policies
from tests.rules.precision.builders import FILE, HEAD, found, subject

HALF = '"mixed_float16"'
SET = f"mixed_precision.set_global_policy({HALF})"
BACK = 'mixed_precision.set_global_policy("float32")'
LOOP = """
def loop(model, optimizer, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

"""


def policies(text: str, *names: str) -> list[str | None]:
    """Return the policy under which each function of a file runs."""
    given = subject(HEAD + text)
    source = given.sources[FILE]
    functions = {f.name: f for f in tree_of(source).functions()}
    reached = Policies(given)
    return [reached.at(source, functions[name]) for name in names]


def test_a_policy_of_the_module_holds_everywhere() -> None:
    assert policies(f"{SET}\ndef a():\n    pass\n", "a") == ["mixed_float16"]


def test_a_policy_that_a_test_sets_ends_with_it() -> None:
    text = (
        LOOP
        + f"def test_half():\n    {SET}\n    other()\n\ndef other():\n    pass\n\ndef test_float32():\n    loop()\n"
    )
    assert policies(text, "test_half", "other", "loop", "test_float32") == [
        "mixed_float16",
        "mixed_float16",
        "float32",
        "float32",
    ]


def test_methods_of_a_test_case_do_not_share_a_policy_but_its_setup_does() -> None:
    case = "class Case(tf.test.TestCase):\n    def {0}(self):\n        {1}\n\n    def test_b(self):\n        loop()\n"
    assert policies(LOOP + case.format("test_a", SET), "test_a", "loop", "test_b") == [
        "mixed_float16",
        "float32",
        "float32",
    ]
    assert policies(LOOP + case.format("setUp", SET), "loop", "test_b") == ["mixed_float16", "mixed_float16"]


@pytest.mark.parametrize(("option", "policy"), [("", "float32"), ("(autouse=True)", "mixed_float16")])
def test_a_fixture_reaches_those_that_ask_for_it(option: str, policy: str) -> None:
    text = (
        f"@pytest.fixture{option}\ndef half():\n    {SET}\n\ndef test_a(half):\n    pass\n\ndef test_b():\n    pass\n"
    )
    assert policies("import pytest\n" + text, "test_a", "test_b") == ["mixed_float16", policy]


def test_a_helper_that_only_sets_the_policy_reaches_what_runs_behind_its_call() -> None:
    text = f"def enable():\n    {SET}\n\ndef before():\n    pass\n\ndef after():\n    pass\n\n"
    main = "def main():\n    before()\n    enable()\n    after()\n\nif __name__ == '__main__':\n    main()\n"
    assert policies(text + main, "before", "after") == ["float32", "mixed_float16"]
    looped = main.replace(
        "    before()\n    enable()\n", "    for _ in range(2):\n        before()\n        enable()\n"
    )
    assert policies(text + looped, "before", "after") == ["mixed_float16", "mixed_float16"]
    assert policies(text, "before", "after") == ["mixed_float16", "mixed_float16"]  # whoever imports it may call both


def test_a_function_that_sets_it_and_trains_sets_it_for_itself() -> None:
    text = f"def half(model):\n    {SET}\n    model.fit()\n\ndef other(model):\n    model.fit()\n"
    assert policies(text, "half", "other") == ["mixed_float16", "float32"]
    called = text + "\ndef main():\n    half(1)\n    other(1)\n"
    assert policies(called, "half", "other") == ["mixed_float16", "mixed_float16"]


def test_a_policy_that_is_set_back_ends_there() -> None:
    text = (
        f"def a():\n    pass\n\ndef b():\n    pass\n\ndef main():\n    {SET}\n    a()\n    {BACK}\n    b()\n\nmain()\n"
    )
    assert policies(text, "a", "b") == ["mixed_float16", "float32"]


def test_the_methods_of_a_class_that_is_made_under_a_policy_run_under_it() -> None:
    text = "class Net(keras.Model):\n    def call(self, x):\n        return x\n\n"
    assert policies(f"{text}def test_a():\n    {SET}\n    Net()\n", "call") == ["mixed_float16"]
    assert policies(f"{text}def test_a():\n    {SET}\n\ndef test_b():\n    Net()\n", "call") == ["float32"]


def test_two_tests_of_different_policies_each_have_their_own() -> None:
    bfloat16 = SET.replace("float16", "bfloat16")
    text = f"def test_a():\n    {SET}\n\ndef test_b():\n    {bfloat16}\n"
    assert policies(text, "test_a", "test_b") == ["mixed_float16", "mixed_bfloat16"]


def test_what_a_trace_saw_counts_where_no_call_of_the_files_set_it() -> None:
    given = subject(HEAD + LOOP, mode="traced", policy="mixed_float16")
    source = given.sources[FILE]
    node = next(f for f in ast.walk(source.tree) if isinstance(f, ast.FunctionDef))
    assert Policies(given).at(source, node) == "mixed_float16"


def test_rules_find_nothing_in_the_float32_code_of_other_tests() -> None:
    both = LOOP.replace("loop", "loop_half", 1) + LOOP.replace("loop", "loop_plain", 1)
    tests = f"def test_half():\n    {SET}\n    loop_half()\n\ndef test_plain():\n    loop_plain()\n"
    assert len(found("TC202", subject(HEAD + both + tests))) == 1
    everywhere = tests.replace(f"    {SET}\n", "") + f"\n{SET}\n"
    assert len(found("TC202", subject(HEAD + both + everywhere))) == 2
