"""Which precision policy counts: one that the files set anywhere, and none where they set two different ones."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.audit.source.model import SEVERAL_POLICIES
from tcprobe.rules.base import Subject
from tcprobe.rules.precision.policy import policies_of, policy_of
from tests.rules.precision.builders import FILE, HEAD, dense, found, parse_source, read, subject
from tests.rules.precision.test_tc202 import LOOP
from tests.rules.precision.test_tc203 import WRAP

SET = 'mixed_precision.set_global_policy("{}")\n'
HALF, BRAIN, BACK = (SET.format(policy) for policy in ("mixed_float16", "mixed_bfloat16", "float32"))
OBJECT = 'policy = mixed_precision.Policy("mixed_float16")\nmixed_precision.set_global_policy(policy)\n'
OTHER = "mixed_precision.set_global_policy(args.policy)\n"


def within(*lines: str) -> str:
    """Return a function for each line, which nothing in the file calls."""
    return "".join(f"def set_{i}(args):\n    " + "    ".join(line.splitlines(True)) for i, line in enumerate(lines))


@pytest.mark.parametrize(
    "text",
    [
        HALF,
        OBJECT,
        within(HALF),
        within(OBJECT),
        within(HALF, HALF) + HALF,
        "class Case(tf.test.TestCase):\n    def test_half(self):\n        " + HALF,
        "if args.fast:\n    " + HALF,
        'keras.config.set_dtype_policy("mixed_float16")\n',
        'mixed_precision.experimental.set_policy("mixed_float16")\n',
        'tf.keras.config.set_dtype_policy(keras.DTypePolicy(name="mixed_float16"))\n',
    ],
)
def test_a_policy_counts_wherever_the_file_sets_it(text: str) -> None:
    given = subject(HEAD + text + LOOP)
    assert policy_of(given) == "mixed_float16"
    assert len(found("TC202", given)) == 1


def test_the_name_of_a_policy_may_stand_behind_its_loss_scale() -> None:
    text = 'mixed_precision.set_policy(mixed_precision.Policy(loss_scale="dynamic", name="mixed_float16"))\n'
    assert policy_of(subject(HEAD + text)) == "mixed_float16"


@pytest.mark.parametrize(
    ("text", "policies"),
    [
        (within(HALF, BRAIN), {"mixed_float16", "mixed_bfloat16"}),
        (within(HALF, BACK), {"mixed_float16", "float32"}),
        ("if args.fast:\n    " + HALF + "else:\n    " + BACK, {"mixed_float16", "float32"}),
        (within(HALF) + OTHER, {"mixed_float16", None}),
        (OTHER, {None}),
    ],
)
def test_two_different_policies_make_it_unknown(text: str, policies: set[str | None]) -> None:
    given = subject(HEAD + text + LOOP)
    assert (policies_of(given), policy_of(given)) == (policies, None)
    assert found("TC202", given) == []


def test_the_files_of_a_subject_count_together() -> None:
    one, two = "/models/one.py", "/models/two.py"
    given = subject(HEAD)
    sources = {one: parse_source(HEAD + within(HALF), one), two: parse_source(HEAD + LOOP, two)}
    assert len(found("TC202", Subject(given.model, given.step, sources))) == 1
    sources[two] = parse_source(HEAD + LOOP + within(BRAIN), two)
    assert found("TC202", Subject(given.model, given.step, sources)) == []


def test_no_call_that_sets_one_leaves_what_the_model_says() -> None:
    assert policy_of(subject(HEAD, policy="float32")) == "float32"
    assert policy_of(subject(HEAD)) is None


def test_what_a_trace_saw_counts_whatever_the_files_set() -> None:
    given = subject(HEAD + within(BRAIN, BACK) + LOOP, mode="traced", policy="mixed_float16")
    assert policy_of(given) == "mixed_float16"
    assert len(found("TC202", given)) == 1


@pytest.mark.parametrize("code", ["TC204", "TC206", "TC210"])
def test_rules_that_need_the_policy_say_nothing_of_an_unknown_one(code: str) -> None:
    cast = "class A(layers.Layer):\n    def call(self, q):\n        return tf.matmul(tf.cast(q, tf.float32), q)\n"
    text = {"TC204": HALF + cast, "TC206": BRAIN, "TC210": BRAIN + WRAP.format("keras.optimizers.Adam()")}[code]
    settings: dict[str, Any] = {"gpu": "v100-sxm2", "products": (dense("d", 8, 8)[1],)} if code == "TC206" else {}
    assert len(found(code, subject(HEAD + text, **settings))) == 1
    assert found(code, subject(HEAD + text + within(BACK), **settings)) == []


def test_a_fixed_scale_is_listed_where_one_of_the_policies_may_need_it() -> None:
    text = WRAP.format("keras.optimizers.SGD(), dynamic=False")
    listed = [len(found("TC203", subject(HEAD + text + sets))) for sets in (HALF + BACK, OTHER, BRAIN + BACK)]
    assert listed == [1, 1, 0]


def test_the_reason_is_a_note_of_the_audit() -> None:
    text = HEAD + within(HALF, BACK) + "model = keras.Sequential([keras.Input((8,)), layers.Dense(8)])\n"
    (note,) = read(text, FILE).model.notes
    assert note == f"{SEVERAL_POLICIES} float32 and mixed_float16"
    assert read(HEAD + within(HALF), FILE).model.notes == ()
