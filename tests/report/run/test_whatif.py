"""The table of predicted steps, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.report.run.findings import change_of, what_if_table
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import CHANGES, ChangeKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.provenance import Provenance, Stack
from tcprobe.schema.whatif import Throughput, WhatIf
from tests.report.builders import MS, gpu_profile, rendered, run, texts

OWN = Provenance("a100-sxm-40", "a100-sxm-40", Stack(name="PyTorch 2.13.0"))


def what_if(change: ChangeKind, low: float, likely: float, high: float, **more: Any) -> WhatIf:
    """Return a change of a step of 101 ms, of which its ops take 60; gains in ms."""
    gain = Range(low * MS, likely * MS, high * MS)
    known: dict[str, Any] = {"step_ns": 101.0 * MS, "evidence": "timed", "constants": OWN, **more}
    return WhatIf(change, gain, 60.0 * MS, 12, "measured x predicted", **known)


def shown(*found: WhatIf, top: int | None = None) -> tuple[list[str], tuple[tuple[str, ...], ...], tuple[str, ...]]:
    section = what_if_table(replace(gpu_profile(), what_ifs=found), top)
    assert section is not None
    return [head.text for head in section.headings], texts(section), section.notes


def test_a_step_now_and_then() -> None:
    # 101 - 39 = 62, 101 - 33 = 68, 101 - 27 = 74
    speed = Throughput(1010.0, Range(1365.0, 1485.0, 1629.0), "img/s")
    heads, rows, notes = shown(what_if("mixed_float16", 27, 33, 39, throughput=speed))
    assert dict(zip(heads, rows[0], strict=True)) == {
        "change": "mixed_float16", "step now": "101 ms", "then": "62-74 ms", "likely": "68.0 ms",
        "saves in these ops, a step": "27-39 ms", "throughput": "1010 -> 1365-1629 img/s", "ops": "12",
    }  # fmt: skip
    assert notes == ("predicted for an A100 SXM4 40GB from measurements of an A100 SXM4 40GB",)


def test_the_range_holds_the_likely_step_and_the_step_now() -> None:
    # 101 - 97.745 = 3.255 and 101 - 97.74 = 3.26: with two digits, 3.3 would be more than the likely step
    heads, rows, _ = shown(what_if("mixed_float16", 96.9, 97.74, 97.745))
    row = dict(zip(heads, rows[0], strict=True))
    assert (row["then"], row["likely"]) == ("3.25-4.1 ms", "3.26 ms")


def test_throughput_may_be_less_where_the_step_may_be_longer() -> None:
    speed = Throughput(1010.0, Range(1010.0, 1485.0, 1629.0), "img/s")
    heads, rows, notes = shown(what_if("allow_tf32", 0, 33, 39, may_cost=True, throughput=speed))
    assert dict(zip(heads, rows[0], strict=True))["throughput"] == "1010 -> 1010-1629 img/s or less"
    assert "or longer, or less: the range of the prediction holds a loss as well" in notes


def test_what_may_cost_says_so() -> None:
    heads, rows, notes = shown(what_if("mixed_bfloat16", 0, 33, 39, may_cost=True, unpredicted=3))
    row = dict(zip(heads, rows[0], strict=True))
    assert (row["then"], row["saves in these ops, a step"], row["not predicted"]) == (
        "62-101 ms or longer",
        "up to 39 ms",
        "3",
    )
    assert "or longer: the range of the prediction holds a loss as well" in notes
    assert any(note.startswith("not predicted: ops of unknown shapes") for note in notes)


def test_without_a_step_gains_are_of_the_capture() -> None:
    heads, rows, _ = shown(what_if("allow_tf32", 1, 2, 3, step_ns=None))
    assert dict(zip(heads, rows[0], strict=True)) == {
        "change": "allow TF32", "saves of the capture": "1-3 ms", "ops": "12",
    }  # fmt: skip


NAMED: list[tuple[dict[str, Any], str]] = [
    ({"change": "mixed_float16"}, "mixed_float16"),
    ({"change": "mixed_bfloat16"}, "mixed_bfloat16"),
    ({"change": "allow_tf32"}, "allow TF32"),
    ({"change": "tensor_cores"}, "Tensor Core kernels in 16 bits"),
    ({"change": "change_size", "layer": "conv", "dimension": "filters", "size": 63, "next_size": 64},
     "filters of conv 63 -> 64"),
    ({"change": "slice_filters", "layer": "conv", "dimension": "filters", "size": 1, "next_size": 8},
     "8 filters in conv, keep 1"),
    ({"change": "together", "holds": (("mixed_float16", None), ("change_size", "a"), ("slice_filters", "b"))},
     "all together (mixed_float16, 1 size, 1 slice of 8 filters)"),
    ({"change": "together", "holds": (("change_size", "a"), ("change_size", "b"))}, "all together (2 sizes)"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "words"), NAMED)
def test_every_change_has_a_name(fields: dict[str, Any], words: str) -> None:
    assert change_of(what_if(fields["change"], 1, 2, 3, **{k: v for k, v in fields.items() if k != "change"})) == words


def test_no_change_is_left_without_one() -> None:
    assert {fields["change"] for fields, _ in NAMED} == set(CHANGES)


def test_all_together_stands_whatever_is_left_out() -> None:
    sizes = [
        what_if("change_size", 1, 9 - n, 9, layer=f"l{n}", dimension="units", size=63, next_size=64) for n in range(5)
    ]
    last = what_if("together", 1, 20, 30, holds=(("change_size", "l0"), ("change_size", "l1")))
    _, rows, notes = shown(*sizes, last, top=2)
    assert [row[0] for row in rows] == [
        "units of l0 63 -> 64", "units of l1 63 -> 64", "all together (2 sizes)",
    ]  # fmt: skip
    assert notes[0] == "(3 more; --top 0 shows all)"
    assert any(note.startswith("a size saves its part of what all such changes save together") for note in notes)


def test_nothing_predicted_is_no_table() -> None:
    assert what_if_table(gpu_profile(), None) is None
    assert "What if" not in rendered("text", run(gpu_profile()), 100)


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_it_stands_after_the_advice(format_: str) -> None:
    profile: Profile = replace(gpu_profile(), what_ifs=(what_if("mixed_float16", 27, 33, 39),))
    text = rendered(format_, run(profile), 100 if format_ == "text" else None)
    assert text.index("What to do first") < text.index("What if (predicted)") < text.index("Costliest ops off")
