"""SARIF: valid against the schema, with stable fingerprints and paths relative to the root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.report.audit import sarif
from tcprobe.rules.docs import DOCS
from tcprobe.rules.docs.base import RuleDoc
from tcprobe.schema.finding import Audited, AuditReport, Finding
from tcprobe.schema.model import CellLine, Place
from tests.report.audit.builders import COSTLY, FILE, MILD, REPORTS, ROOT, SPEC, audited, document, report
from tests.report.builders import rendered as rendered_document

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8"))


def rendered(of: AuditReport) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(rendered_document("sarif", document(of, SPEC)))
    return loaded


def results(*findings: Finding) -> list[dict[str, Any]]:
    made = Audited("m", FILE, "source", findings=findings)
    listed: list[dict[str, Any]] = rendered(AuditReport((made,), root=ROOT))["runs"][0]["results"]
    return listed


def prints(*findings: Finding) -> list[str]:
    return [r["partialFingerprints"][sarif.FINGERPRINT] for r in results(*findings)]


@pytest.mark.parametrize("name", REPORTS)
def test_the_log_is_valid_against_the_schema(name: str) -> None:
    jsonschema.Draft4Validator(SCHEMA).validate(rendered(REPORTS[name]()))


def test_the_schema_would_refuse_a_wrong_log() -> None:
    log = rendered(report())
    log["runs"][0]["results"][0]["level"] = "bad"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate(log)


def test_a_result_names_its_rule_level_and_region() -> None:
    (found,) = results(COSTLY)
    assert (found["ruleId"], found["ruleIndex"], found["level"]) == ("TC101", 0, "error")
    physical = found["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "models/gan.py", "uriBaseId": "%SRCROOT%"}
    assert physical["region"] == {"startLine": 12, "startColumn": 5, "endLine": 12, "endColumn": 40}


def test_a_fix_has_its_replacements_together() -> None:
    (change,) = results(COSTLY)[0]["fixes"][0]["artifactChanges"]
    assert [r["insertedContent"]["text"] for r in change["replacements"]] == ["64", "64"]
    assert [r["deletedRegion"]["startLine"] for r in change["replacements"]] == [12, 30]


def test_suppressed_findings_are_there_and_marked() -> None:
    made = rendered(report())["runs"][0]["results"]
    assert [r["ruleId"] for r in made if r.get("suppressions") == [{"kind": "inSource"}]] == ["TC205"]


def test_a_fingerprint_does_not_move_with_the_line_or_the_counter_in_the_name() -> None:
    moved = replace(COSTLY, place=Place(FILE, 80, 5, 80, 40), layer="generator/conv2d_7")
    assert prints(COSTLY) == prints(moved)


def test_equals_and_different_sizes_have_fingerprints_of_their_own() -> None:
    again = replace(COSTLY, place=Place(FILE, 13, 5, 13, 40))
    assert len(set(prints(COSTLY, again, MILD))) == 3
    assert prints(COSTLY)[0] == prints(COSTLY, again)[0]


def test_known_findings_are_left_out_and_the_others_keep_their_fingerprints() -> None:
    again = replace(COSTLY, place=Place(FILE, 13, 5, 13, 40))
    made = Audited("m", FILE, "source", findings=(again,), known=(COSTLY,))
    (result,) = rendered(AuditReport((made,), root=ROOT))["runs"][0]["results"]
    assert result["partialFingerprints"][sarif.FINGERPRINT] == prints(COSTLY, again)[1]


def test_a_place_in_a_notebook_is_a_line_of_its_json_and_named() -> None:
    book = f"{ROOT}/train.ipynb"
    inside = replace(COSTLY, place=Place(book, 12, 5, 13, 40, CellLine(3, 2, 57)), related=(), fix=None)
    log = rendered(AuditReport((Audited("m", book, "source", findings=(inside,)),), root=ROOT))
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    (result,) = log["runs"][0]["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": 57}
    assert location["logicalLocations"] == [{"name": "cell 3", "fullyQualifiedName": "cell 3:2:5"}]
    assert result["message"]["text"].startswith("cell 3:2: Conv2D")


RULES = tuple(doc for doc in DOCS if not doc.of_runs)


def test_a_finding_takes_a_few_kilobytes() -> None:
    text = rendered_document("sarif", document(report(), SPEC))
    log = json.loads(text)
    run = log["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == sorted({r["ruleId"] for r in run["results"]})
    assert len(text.encode()) < 4_000 * len(run["results"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_github_shows_the_description_of_a_rule_whole(rule: RuleDoc) -> None:
    found = replace(COSTLY, code=rule.code)
    log = json.loads(rendered_document("sarif", document(AuditReport((audited((found,)),), root=ROOT), SPEC)))
    (made,) = [r for r in log["runs"][0]["tool"]["driver"]["rules"] if r["id"] == rule.code]
    described = made["fullDescription"]["text"]
    assert len(described) <= 1024
    assert rule.explanation.startswith(described)
    assert described.endswith(".")
    assert rule.bad.strip() in made["help"]["markdown"]
    assert f"tcprobe explain {rule.code}" in made["help"]["text"]


def test_a_file_outside_the_root_and_a_name_with_spaces() -> None:
    outside = replace(COSTLY, place=Place("/elsewhere/my model.py", 1), related=(), fix=None)
    location = results(outside)[0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "file:///elsewhere/my%20model.py"}


def test_a_file_that_could_not_be_audited_makes_the_run_unsuccessful() -> None:
    invocation = rendered(report())["runs"][0]["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert "line 3: invalid syntax" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    clean = rendered(AuditReport((audited(),), root=ROOT))["runs"][0]["invocations"][0]
    assert clean["executionSuccessful"] is True
