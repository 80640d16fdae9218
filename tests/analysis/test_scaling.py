"""Whether float16 needs a scaled loss, from gradients that were counted by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tcprobe.analysis.scaling import loss_scale_need
from tcprobe.report.run.about import loss_scale_sentence
from tcprobe.schema.profile import LossScale, LossScaleNeed, Metadata, Policy, Profile
from tcprobe.schema.tables import GRADIENTS
from tests.analysis.builders import table

EXPONENTS = range(-49, 17, 2)


def weight(layer: str, magnitudes: list[float], scale: float = 1.0, zeros: int = 0, odd: int = 0) -> dict[str, Any]:
    """A row of the table: 10 values for each magnitude, as float16 has them at a scale."""
    values = [10 * (m * scale <= 2**-25) for m in magnitudes], [10 * (2**-25 < m * scale < 2**-14) for m in magnitudes]
    over = sum(10 * (m * scale >= 65520) for m in magnitudes)
    count = 10 * len(magnitudes) + zeros + odd
    larger = {str(e): 10 * sum(m > 2.0**e for m in magnitudes) for e in EXPONENTS}
    return {
        "layer": layer, "weight": "kernel", "updates": 5, "size": 2 * count, "values": count, "scale": scale,
        "zero_pct": 0.0, "subnormal_pct": 0.0, "infinite_pct": 0.0, "zeros": zeros, "not_finite": odd,
        "gone": sum(values[0]), "subnormal": sum(values[1]), "infinite": over, "larger": json.dumps(larger),
    }  # fmt: skip


def need(*rows: dict[str, Any], precision: str = "float32", kind: str = "none") -> LossScaleNeed:
    policy = Policy(loss_scales=(LossScale(kind),))  # type: ignore[arg-type]
    profile = Profile(Metadata("run_folder", precision=precision, policy=policy)).with_tables(table(GRADIENTS, [*rows]))
    found = loss_scale_need(profile)
    assert found is not None
    return found


NORMAL = [1e-3] * 9
SMALL = weight("net/small", [*NORMAL, 2**-26])  # one in ten vanishes at scale 1; at 4 it is subnormal
HELD = weight("net/small", [*NORMAL, *NORMAL, 2**-26], 1024.0)  # 1 of 19


@pytest.mark.parametrize(
    ("found", "said"),
    [
        # 2**-26 is larger than 2**-27, so that scale 4 makes it no 0; 1024 makes it 2**-16, which is subnormal.
        (need(SMALL, weight("net/fine", NORMAL)),
         "Needs loss scaling: 10.0 % of net/small's gradient values vanish in float16; at 16384 none vanish "
         "(5 updates, 50.0 % of the values)."),
        (need(HELD), "Needs its loss scaling: at scale 1 5.3 % of net/small's gradient values vanish in float16; "
         "at the 1024 used none vanish, 5.3 % of a layer's at most are subnormal (5 updates, 50.0 % of the values)."),
        (need(weight("a", [*NORMAL, 2**-30], 4.0)),
         "Loss scale 4 is too small: 10.0 % of a's gradient values vanish in float16; at 262144 none vanish "
         "(5 updates, 50.0 % of the values)."),
        (need(weight("a", [1e-3, 1e-5])), "Loss scaling would help: 50.0 % of a's gradient values lose digits as "
         "subnormals in float16; at 16 none vanish (5 updates, 50.0 % of the values)."),
        (need(weight("a", NORMAL)), "Its weights' gradients need no loss scaling: at scale 1 0.0 % of a's gradient "
         "values vanish in float16, and of no layer more (5 updates, 50.0 % of the values)."),
        (need(weight("a", [1.0, 1e-3], 1e6)), "Loss scale 1000000 is too large: 50.0 % of a's gradient values are "
         "infinite or NaN in float16; at 1 none overflow, none vanish (5 updates, 50.0 % of the values)."),
        (need(weight("a", [1.0], odd=10)), "Overflows float16 without loss scaling: 50.0 % of a's gradient values "
         "are infinite or NaN in float16 (5 updates, 50.0 % of the values)."),
        (need(weight("a", [1.0], zeros=30), precision="mixed_float16"), "75.0 % of a's gradient values are 0, in "
         "float16 maybe vanished ones: profile a float32 run to know whether it needs loss scaling "
         "(5 updates, 50.0 % of the values)."),
        (need(weight("a", [*NORMAL, *NORMAL, 2**-26], 1024.0, 90, 20), precision="mixed_float16", kind="dynamic"),
         "Needs its loss scaling: at scale 1 at least 5.3 % of a's gradient values vanish in float16; at the 1024 "
         "used 5.3 % of a layer's at most are subnormal; of what is 0 (up to 30.0 % of a layer's) it does not tell "
         "(5 updates, 50.0 % of the values)."),
        (need(weight("a", [], odd=10), precision="mixed_float16", kind="fixed"), "Overflows float16 without loss "
         "scaling: 100.0 % of a's gradient values are infinite or NaN in float16 (5 updates, 50.0 % of the values)."),
    ],
)  # fmt: skip
def test_what_is_said(found: LossScaleNeed, said: str) -> None:
    assert loss_scale_sentence(found) == said


def test_weights_of_a_layer_count_together_and_no_gradient_says_nothing() -> None:
    both = [weight("a", [2**-30]), weight("a", NORMAL)]
    assert (need(*both).kind, need(*both).pct) == ("lost", 10.0)
    assert need(*both) == need(*reversed(both))
    assert loss_scale_need(Profile(Metadata("run_folder"))) is None
