"""TC210: loss scaling that nothing needs."""

from __future__ import annotations

import pytest

from tests.rules.precision.builders import BFLOAT16, FLOAT16, HEAD, dense, said, subject
from tests.rules.precision.test_tc202 import BY_HAND, GUIDE_LOOP, LOOP

WRAP = "optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WRAP, ["5 note"]),
        (GUIDE_LOOP, ["6 note"]),
        ('if __name__ == "__main__":\n    ' + WRAP, ["6 note"]),
        (BY_HAND, ["9 note"]),
        ("optimizer = keras.optimizers.SGD(loss_scale_factor=512)\n", ["5 note"]),
    ],
)
def test_scaling_under_bfloat16_is_a_note(text: str, expected: list[str]) -> None:
    assert said("TC210", subject(BFLOAT16 + text)) == expected
    assert said("TC210", subject(FLOAT16 + text)) == []


@pytest.mark.parametrize(
    "text",
    [
        BFLOAT16 + LOOP,
        BFLOAT16 + "if args.half:\n    " + WRAP,
        BFLOAT16.replace("mixed_precision.set", "if args.brain:\n    mixed_precision.set") + WRAP,
        HEAD + "mixed_precision.set_global_policy(args.policy)\n" + WRAP,
        HEAD + WRAP,
        BFLOAT16 + 'mixed_precision.set_global_policy("mixed_float16")\n' + WRAP,
    ],
)
def test_conditions_and_unknown_policies_are_silent(text: str) -> None:
    assert said("TC210", subject(text)) == []


def test_traced_float32_is_certain() -> None:
    assert said("TC210", subject(HEAD + WRAP, mode="traced", policy="float32")) == ["4 note"]
    layer, _ = dense("half", 8, 8, dtype="float16")
    assert said("TC210", subject(HEAD + WRAP, mode="traced", policy="float32", layers=(layer,))) == []
