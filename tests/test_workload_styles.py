"""Training scripts in the styles people write: what tcprobe says of each is what the script says of itself.

Steps, phases, FLOPs and products of a step, layers, their lines, notes. `bench/workload_styles.py` does the same under
other versions of TensorFlow, and for the styles that take too long here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.flows.profile import ProfileOptions, profile
from tests import warm
from tests.support import needs_tensorflow
from tests.truths.compare import Verdict, compare
from tests.truths.found import Found, Made, Said
from tests.truths.styles import QUIET, SCRIPTS, STYLES, counted, judge
from tests.truths.truth import Truth, only_bench, read_truth

HERE = [script for script in SCRIPTS if not only_bench(script)]


@pytest.mark.tensorflow
@needs_tensorflow
@pytest.mark.parametrize("script", HERE, ids=lambda path: path.stem)
def test_a_style_is_told_right(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    outcome = profile(ProfileOptions((str(script),), python=warm.python(), output=tmp_path / "run"))
    output = capfd.readouterr().out
    assert outcome.exit_code == 0
    assert counted(output)
    assert outcome.report is not None
    notes = [Said(note.code, note.message, note.level) for note in outcome.report.metadata.notes]
    verdicts = judge(script, outcome.folder, output, notes)
    assert [v for v in verdicts if v.state != "right" and not (v.allowed and v.state != "wrong")] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_style_has_a_truth(script: Path) -> None:
    for tensorflow, keras in (("2.4.4", "2.4.0"), ("2.21.0", "3.15.1")):
        truth = read_truth(script, tensorflow, keras)
        assert truth.products or "products" in truth.unknown


def test_a_truth_is_read_from_comments(tmp_path: Path) -> None:
    script = tmp_path / "style.py"
    script.write_text(
        '"""A style."""\n#: said every 4\n\nf = [\n    # why\n    #: net/a 3*2x4x8: forward, 2 dgrad\n'
        "    #: [keras 3] net/b: nothing\n    Layer(),\n    Layer(),  #: [phase 1] net/c 2x3: wgrad\n]\n"
    )
    truth = read_truth(script, "2.15.1", "2.15.0")
    assert [(p.layer, p.line, p.kind, p.count, p.flops, p.phase) for p in truth.products] == [
        ("net/a", 8, "forward", 3, 3 * 2 * 64, None),
        ("net/a", 8, "dgrad", 6, 6 * 2 * 64, None),
        ("net/c", 9, "wgrad", 1, 12, 1),
    ]
    assert (truth.flops(0), truth.flops(1)) == (9 * 128, 9 * 128 + 12)
    assert (truth.silent, truth.said) == (frozenset(), ("every 4",))
    assert read_truth(script, "2.21.0", "3.15.1").silent == {"net/b"}


def found(truth: Truth, **other: object) -> Found:
    """Return what a tcprobe that is right would say."""
    made = tuple(
        Made(p.layer, p.kind, p.count, p.flops // p.count, "yes", f"/a/fit.py:{p.line}", "") for p in truth.products
    )
    right = Found("2.21.0", "3.15.1", 40, (40,), {0: truth.flops(0)}, (4, 23), truth.flops(0), False, made,
                  frozenset({"sequential/dense"}), (), ())  # fmt: skip
    return right.__class__(**{**{name: getattr(right, name) for name in right.__slots__}, **other})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "figure", "state"),
    [
        ({}, None, None),
        ({"steps": 39}, "steps", "wrong"),
        ({"steps": 0, "notes": (Said("no-steps", "no training step was found", "warning"),)}, "steps", "unknown"),
        ({"steps": 0}, "steps", "wrong"),
        ({"phases": (20, 20)}, "phases", "wrong"),
        ({"flops": 90111}, "FLOPs", "wrong"),
        ({"flops": 90111, "bound": True}, "FLOPs", "bound"),
        ({"flops": None}, "FLOPs", "wrong"),
        ({"flops": None, "reasons": ("a shape is unknown",)}, "FLOPs", "unknown"),
        ({"layers": frozenset({"sequential_1/dense"})}, "layers", "wrong"),
        ({"notes": (Said("odd", "a warning", "warning"),)}, "notes", "wrong"),
    ],
    ids=str,
)
def test_what_is_not_right_is_told(other: dict[str, object], figure: str | None, state: str | None) -> None:
    script = STYLES / "fit.py"
    truth = read_truth(script, "2.21.0", "3.15.1")
    verdicts = [v for v in compare(script, truth, found(truth, **other), (40,)) if v.state != "right"]
    if figure is None:
        assert verdicts == []
    else:
        assert (figure, state) in [(v.figure, v.state) for v in verdicts]


def wrong_of(change: dict[str, object]) -> list[Verdict]:
    """Return what is wrong where the first product of `fit` is changed so."""
    script = STYLES / "fit.py"
    truth = read_truth(script, "2.21.0", "3.15.1")
    first, *rest = found(truth).made
    changed = Made(**{**{name: getattr(first, name) for name in first.__slots__}, **change})  # type: ignore[arg-type]
    return [v for v in compare(script, truth, found(truth, made=(changed, *rest)), (40,)) if v.state != "right"]


def test_a_product_must_be_right_in_every_respect() -> None:
    assert [(v.figure, v.state) for v in wrong_of({"kind": "dgrad"})] == [("products", "wrong")]
    assert [(v.figure, v.state) for v in wrong_of({"count": 2})] == [("products", "wrong")]
    assert [(v.figure, v.state) for v in wrong_of({"executes": "unknown"})] == [("products", "unknown")]
    assert [(v.figure, v.state) for v in wrong_of({"layer": "sequential/dense/inner"})] == []
    (line,) = wrong_of({"source": "/a/fit.py:1"})
    assert (line.figure, line.text) == ("layers", "sequential/dense at fit.py:1 for fit.py:10")
