"""The words that all reports of an audit share, worked by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.formatting import relative
from tcprobe.report.audit import words
from tcprobe.schema.finding import Audited, AuditReport, Range
from tcprobe.schema.model import Place
from tcprobe.schema.statement import say
from tests.report.audit.builders import COSTLY, FILE, FREE, MILD, ROOT, audited, document, report
from tests.report.builders import rendered


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 %"), (0.04, "<0.1 %"), (0.99, "0.9 %"), (3.0, "3 %"), (4.99, "4.9 %"), (5.0, "5 %"), (41.7, "41 %")],
)
def test_a_share_never_prints_as_the_threshold_above_it(value: float, said: str) -> None:
    assert words.floor_percent(value) == said


@given(st.floats(0, 100))
def test_a_share_that_prints_as_five_is_five(value: float) -> None:
    assert not (words.floor_percent(value) == "5 %" and value < 5 - 1e-9)


def test_severity_and_share_stand_before_the_colon() -> None:
    whole = replace(audited(), costed=audited().products)
    said = words.finding_line(whole, COSTLY)
    assert said.startswith("Conv2D 'conv2d_1' filters=63 is not a multiple of 8 (error, 5.6 % of the step): forward,")
    assert said.endswith("; 64 saves 0.4-0.6 ms a step")


def test_a_share_of_a_step_that_is_known_in_part_says_so() -> None:
    part = replace(audited(), costed=audited().products - 1)
    assert "(error, 5.6 % of the predicted part of the step)" in words.finding_line(part, COSTLY)


def test_what_would_cost_time_has_no_share() -> None:
    costs = replace(COSTLY, severity="note", saving_pct=Range(-0.2, -0.1, 0.0), saving_ns=Range(-2.0, -1.0, 0.0))
    assert "(note):" in words.finding_line(audited(), costs)
    assert "saves" not in words.finding_line(audited(), costs)


def test_an_unknown_batch_is_said_in_the_saving() -> None:
    assert words.finding_line(audited(batch_known=False), MILD).endswith("4096 saves 0.09-0.12 ms per 1,024 samples")


def test_why_it_costs_nothing_is_said_once() -> None:
    assert words.finding_line(audited(), FREE).count("does not matter") == 1
    told = replace(FREE, says=say("past_a_tile", subject=None, batch=4090, gpu="A100", better=4096))
    assert words.finding_line(audited(), told).count("does not matter") == 1


def test_findings_come_in_the_order_of_lines_and_shared_ones_once() -> None:
    both = AuditReport((audited((MILD, COSTLY)), replace(audited((COSTLY,)), label="twin")))
    assert [f.place and f.place.line for _, f in words.rows(both)] == [12, 20]


def test_the_costliest_come_first_and_those_that_save_nothing_not_at_all() -> None:
    dear = replace(MILD, saving_ns=Range(1e9, 1e9, 1e9))
    costs = replace(MILD, saving_ns=Range(-3.0, -2.0, -1.0))
    ranked = words.costliest([(audited(), f) for f in (COSTLY, dear, FREE, costs)], 5)
    assert [f for _, f in ranked] == [dear, COSTLY]


@pytest.mark.parametrize(
    ("path", "base", "said"),
    [
        (FILE, ROOT, "models/gan.py"),
        (FILE, ROOT + "/", "models/gan.py"),
        (FILE, "/home/me/proj", FILE),
        (FILE, "", FILE),
        ("/home/me/project2/a.py", ROOT, "/home/me/project2/a.py"),
    ],
)
def test_paths_are_relative_only_inside(path: str, base: str, said: str) -> None:
    assert relative(path, base) == said


def test_the_tally_of_nothing_says_how_much_was_looked_at() -> None:
    assert words.tally(AuditReport((Audited("m", FILE, "source", layers=4),))) == "Found nothing in 4 layers."
    assert words.tally(AuditReport((Audited("m", FILE, "source"),))) == "Found nothing: no layer of a model."


def test_github_escapes_what_would_end_a_property() -> None:
    odd = replace(COSTLY, place=Place(f"{ROOT}/a,b:c%.py", 1), says=say("api_gone", name="50 %\nof it"))
    (line,) = rendered("github", document(AuditReport((audited((odd,)),), root=ROOT))).splitlines()
    assert line.startswith("::error title=tcprobe (TC101),file=a%2Cb%3Ac%25.py,line=1,col=1::50 %25")
    assert "\n" not in line


def test_json_holds_every_figure_and_null_for_the_unknown() -> None:
    loaded = json.loads(rendered("json", document(report())))
    first, second, third = loaded["audited"][0]["findings"]
    assert first["saving_ns"] == {"low": 400_000.0, "mid": 500_000.0, "high": 600_000.0}
    place = {"file": FILE, "line": 12, "column": 5, "end_line": 12, "end_column": 40, "cell": None}
    assert first["place"] == place
    assert first["fix"]["applicability"] == "unsafe"
    assert (second["fix"], third["saving_ns"], third["place"]) == (None, None, None)
    assert len(loaded["audited"][0]["unseen"]) == 3
    counts = {"error": 1, "warning": 1, "note": 1, "fixable": 1, "suppressed": 1, "known": 0, "unseen": 3, "failed": 1}
    assert loaded["summary"] == counts | {"not_judged": 0, "unjudged": 0}
    assert loaded["failed"] == [{"file": f"{ROOT}/broken.py", "reason": "line 3: invalid syntax"}]


def test_many_models_share_one_sentence_on_the_prediction() -> None:
    other = replace(audited(batch_known=False), label="other", xla=True, mode="source")
    (said,) = words.predicted_for(AuditReport((audited(), other)))
    assert "with XLA where a model is compiled" in said
    assert "batch 4,090, per 1,024 samples (where the batch unknown; --batch-size sets it)" not in said
    assert "batch 4,090, per 1,024 samples where it is unknown (--batch-size sets it)" in said
    (said,) = words.predicted_for(AuditReport((audited(), replace(audited(), batch=8))))
    assert "each model's own batch, traced shapes" in said


def test_how_float32_runs_is_said_of_each_model() -> None:
    off = replace(audited(), findings=tuple(replace(f, dtype="float32") for f in audited().findings), tf32_off=True)
    on = replace(off, tf32_off=False)
    as_tf32, without = words.predicted_for(AuditReport((on, off)))
    assert "own dtypes (float32 as TF32), " in as_tf32
    assert "own dtypes (float32 without TF32, which the code turns off), " in without


def test_the_gains_of_many_models_are_cut_to_those_that_gain_most() -> None:
    many = AuditReport(tuple(replace(audited(), label=f"m{n}") for n in range(8)))
    assert [text.partition(":")[0] for text in words.gains(many, 2)] == ["m0", "m1", "6 more models save less each."]
    assert len(words.gains(many, None)) == 8


def test_only_fixes_that_change_the_model_are_said_to() -> None:
    assert COSTLY.fix is not None
    safe = replace(MILD, fix=replace(COSTLY.fix, safe=True))
    both, one, none = (words.fixable(AuditReport((audited(f),))) for f in ((COSTLY, safe), (safe,), (MILD,)))
    assert both == "2 fixable with --fix (1 of them changes the model: checkpoints no longer fit)."
    assert (one, none) == ("1 fixable with --fix.", "")
