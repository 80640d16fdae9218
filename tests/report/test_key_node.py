"""A search for a key node in words: every kind has some, the last line is what to type, nothing claims too much."""

from __future__ import annotations

import io
import json
from typing import get_args

import pytest

from tcprobe.flows.write import destination
from tcprobe.report import RenderSpec
from tcprobe.report import key_node as words
from tcprobe.report.document import ReportSpec
from tcprobe.report.key_node import KeyNodeDocument
from tcprobe.schema.key_nodes import Cadence, Candidate, Fired, Flaw, KeyNodes, Merit, StepsBasis, WhyNone

ADAM = Candidate(Fired("op", "Adam/Add it", 8, None, "AssignAddVariableOp"), "per_step", merits=("optimizer_sum",))
EPOCH = Candidate(Fired("op", "Assign", 2, "ASSIGN_1", "AssignVariableOp"), "per_epoch", 4)
RANGE = Candidate(Fired("range", "step (train)", 8, domain="my"), "per_step", seen=True, position=1.0, gap_cv=0.125)
FOUND = KeyNodes("dlprof_csv", 8, "calls", 5, 6, (ADAM,), (EPOCH,))


def shown(found: KeyNodes, format_: str = "text", ran: tuple[str, ...] = (), top: int | None = None) -> str:
    out = io.StringIO()
    document = KeyNodeDocument(found, "my run", ran, ReportSpec(top))
    destination("key_node", format_, None).renderer.render(document, RenderSpec(), out)
    return out.getvalue()


def test_every_kind_has_words() -> None:
    assert set(words.MERITS) == set(get_args(Merit))
    assert set(words.FLAWS) == set(get_args(Flaw))
    assert set(words.BASES) == set(get_args(StepsBasis))
    assert set(words.NONE) == set(get_args(WhyNone))
    assert set(words.CADENCES) == set(get_args(Cadence))


def test_the_last_line_is_what_to_type() -> None:
    command = "tcprobe profile --profiler dlprof --key-node 'Adam/Add it' "
    assert shown(FOUND).splitlines()[-1] == f"Next: {command}WORKLOAD"
    assert shown(FOUND, ran=("train.py", "--name", "a b")).splitlines()[-1] == f"Next: {command}train.py --name 'a b'"
    ranges = KeyNodes("nsys", 8, "marks", 1, 1, (RANGE,))
    assert shown(ranges).splitlines()[-1] == r"Next: tcprobe report 'my run' --step-range '^step\ \(train\)$'"


def test_what_was_typed_after_a_secret_is_not_shown() -> None:
    assert "hunter2" not in shown(FOUND, ran=("train.py", "--password", "hunter2"))


def test_a_candidate_of_counts_alone_says_so() -> None:
    text = shown(FOUND)
    assert "8, by the number of calls alone; 5 of 6 ops ran so often" in text
    assert "by its calls alone; adds in the optimizer" in text
    assert words.UNSURE in text
    seen = shown(KeyNodes("nsys", 8, "marks", 1, 1, (RANGE,)))
    assert "seen once in each step" in seen
    assert "alone" not in seen


def test_what_fires_once_an_epoch_is_called_out() -> None:
    text = shown(FOUND)
    assert "once in 4 steps" in text
    assert words.SELDOM in text


def test_programs_get_kinds() -> None:
    data = json.loads(shown(FOUND, "json"))
    (first,) = data["candidates"]
    assert (first["rank"], first["key"], first["merits"], first["seen_in_each_step"]) == (
        1,
        "Adam/Add it",
        ["optimizer_sum"],
        False,
    )
    assert data["not_once_per_step"][0]["every"] == 4
    header, *rows = shown(FOUND, "csv").splitlines()
    columns = "rank,key,kind,op_id,name,op_type,domain,cadence,every,calls,steps,steps_basis,seen_in_each_step"
    assert header == f"{columns},position_pct,gap_cv,gpu_ns,merits,flaws"
    assert rows == [
        "1,Adam/Add it,op,,Adam/Add it,AssignAddVariableOp,,per_step,1,8,8,calls,false,,,,optimizer_sum,",
        ",ASSIGN_1,op,ASSIGN_1,Assign,AssignVariableOp,,per_epoch,4,2,8,calls,false,,,,,",
    ]


def test_markdown_has_a_title_and_the_command_as_code() -> None:
    page = shown(FOUND, "markdown")
    assert page.startswith("# Key node\n")
    assert "Next: `tcprobe profile --profiler dlprof --key-node 'Adam/Add it' WORKLOAD`" in page


@pytest.mark.parametrize(("top", "rows"), [(None, 10), (3, 3), (0, 12)])
def test_people_see_the_best_ten(top: int | None, rows: int) -> None:
    many = tuple(Candidate(Fired("op", f"op{n}", 8), "per_step") for n in range(12))
    text = shown(KeyNodes("xplane", 8, "marks", 12, 12, many), top=top)
    assert sum(" op" in line and "as many calls" in line for line in text.splitlines()) == rows
    assert f"({rows} of 12)" in text


@pytest.mark.parametrize(
    ("steps", "said"), [(1, "holds 1 step,"), (2, "holds 2 steps,"), (None, "holds one step or two,")]
)
def test_too_few_steps_are_said(steps: int | None, said: str) -> None:
    message, remedy = words.why_none(KeyNodes("xplane", steps, why_none="few_steps"))
    assert said in message
    assert "20 steps" in remedy
