"""Findings that say the same of one line, told once, and notes by their reasons."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.report.audit import screen as audit_fold
from tcprobe.report.audit import words
from tcprobe.schema.finding import Audited, AuditReport, EffectKind, Finding, FindingKind, Range, WhyKind
from tcprobe.schema.model import CellLine, GpuAsked, Place
from tcprobe.schema.statement import About, Statement, say
from tests.report.audit.builders import COSTLY, FILE, FREE, MILD, ROOT, SILENT, SPEC, audited, document, slower
from tests.report.builders import rendered


def layers(count: int, of: Finding = COSTLY) -> tuple[Finding, ...]:
    """Return one finding for each layer that a loop makes on one line."""
    made = []
    for n in range(count):
        name = "conv" if n == 0 else f"conv_{n}"
        made.append(replace(of, layer=name, says=of.says.changed("subject", About("Conv2D", name, "filters", 63))))
    return tuple(made)


def text(*findings: Finding, verbose: bool = False, typed: tuple[str, ...] = ()) -> str:
    spec = replace(SPEC, verbose=verbose, typed=typed)
    return rendered("text", document(AuditReport((audited(findings),), root=ROOT), spec))


def test_layers_of_one_line_are_one_line_with_what_they_save_together() -> None:
    said = text(*layers(12))
    assert said.count("TC101") == 1
    assert "Conv2D 'conv' (and 11 more) filters=63 is not a multiple of 8 (error, 67 % of the" in said
    assert "of the predicted part of the step together)" in said
    assert "64 saves 4.8-7.2 ms a step" in said
    assert "Found 12 errors" in said


def test_what_most_of_them_say_is_said() -> None:
    first, *rest = layers(3)
    odd = replace(first, says=first.says.changed("effect", slower("forward", "wgrad")))
    assert "forward, dgrad and wgrad run" in audit_fold.folded((audited(), f) for f in (odd, *rest))[0].sentence()


@pytest.mark.parametrize(
    "other",
    [
        replace(MILD, place=COSTLY.place),
        replace(COSTLY, severity="warning"),
        replace(COSTLY, suggested=72),
        replace(COSTLY, why=say("as_fast_as_aligned")),
        replace(COSTLY, place=Place(FILE, 13)),
        replace(COSTLY, saving_ns=None),
    ],
)
def test_what_differs_keeps_its_own_line(other: Finding) -> None:
    assert len(audit_fold.folded([(audited(), COSTLY), (audited(), other)])) == 2


def test_two_models_are_not_added_up() -> None:
    both = [(audited(), COSTLY), (replace(audited(), label="twin"), replace(COSTLY, layer="twin"))]
    assert [f.count for f in audit_fold.folded(both)] == [1, 1]


def test_dense_2_comes_before_dense_10() -> None:
    many = [(audited(), f) for f in reversed(layers(12))]
    assert audit_fold.folded(many)[0].finding.layer == "conv and 11 more"
    assert sorted(("dense_10", "dense_2", "dense"), key=audit_fold.natural) == ["dense", "dense_2", "dense_10"]
    long = "9" * 5_000  # more than Python makes a number of
    assert sorted((long, "10", "2", "007"), key=audit_fold.natural) == ["2", "007", "10", long]


def test_errors_and_warnings_come_before_notes() -> None:
    note = replace(MILD, severity="note", place=Place(FILE, 1))
    lines = text(note, COSTLY, FREE).splitlines()
    assert [("(error" in line, "(note" in line) for line in lines[:4]] == [
        (True, False),
        (False, False),
        (False, True),
        (False, True),
    ]


def notes(count: int) -> list[Finding]:
    return [
        replace(
            MILD, severity="note", place=Place(FILE, n + 1), size=4 * (n % 3 + 1), layer=f"d_{n}", why=say("float64")
        )
        for n in range(count)
    ]


def test_ten_notes_have_a_line_each() -> None:
    assert text(*notes(10)).count(": TC101 ") == 10


def test_more_notes_are_told_by_reason_with_every_size() -> None:
    said = text(COSTLY, *notes(11))
    assert "Notes: 11, by reason; --verbose gives each its line" in said
    lines = "1,2,3,4,5,6,7,8,9,10,11"
    assert f"models/gan.py:{lines}: TC101 units=4 (4), 8 (4), 12 (3): no effect while it computes in float64\n" in said
    assert "Found 1 error, 11 notes" in said
    assert text(COSTLY, *notes(11), verbose=True).count(": TC101 ") == 12


def test_a_reason_of_an_unknown_cost_is_a_whole_sentence() -> None:
    why: Statement[WhyKind] = say("product_sizes_unknown", takes=("rows",), own=(), input=None)
    effect: Statement[EffectKind] = say("slower_by_unknown", why=why, measured=False, rate_pct=None, gpu=None)
    unknown = [replace(n, why=why, says=n.says.changed("effect", effect)) for n in notes(11)]
    said = text(*unknown)
    assert "units=4 (4), 8 (4), 12 (3): it may run more slowly, how much is unknown without the rows" in said


GONE: Statement[FindingKind] = say("api_renamed", name="set_policy", new="set_global_policy")


def test_what_is_no_size_keeps_its_message() -> None:
    gone = replace(SILENT, severity="note", place=Place(FILE, 4), says=GONE)
    assert (
        "models/gan.py:4: TC205 set_policy is gone in Keras 3: use keras.mixed_precision.set_global_policy\n"
        in text(gone, *notes(11))
    )


def test_other_formats_keep_all() -> None:
    report = AuditReport((audited(layers(12)),), root=ROOT)
    assert len(json.loads(rendered("json", document(report)))["audited"][0]["findings"]) == 12
    assert rendered("csv", document(report)).count("error") == 12


def test_one_costly_finding_needs_no_table() -> None:
    assert "Costliest" not in text(COSTLY)
    assert "Costliest, a step" in text(COSTLY, MILD)


def test_markdown_says_severity_and_saving_once_and_notes_last() -> None:
    note = replace(MILD, severity="note", saving_ns=Range(5e6, 6e6, 7e6), place=Place(FILE, 1))
    page = rendered("markdown", document(AuditReport((audited((note, *layers(3))),), root=ROOT)))
    rows = [line for line in page.splitlines() if "TC101" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| error", "| note"]
    assert rows[0].count("error") == 1
    assert rows[0].endswith("| filters 63 -&gt; 64 | 1.2-1.8 ms a step | 16 % |")


RUN = ("--run", "my train.py", "--", "--sizes", "bad")


@pytest.mark.parametrize(
    ("finding", "typed", "last"),
    [
        (COSTLY, RUN, "See the fixes: tcprobe audit-shapes --diff --run 'my train.py' -- --sizes bad"),
        (COSTLY, ("--format", "text", "a.py"), "See the fixes: add --diff"),
        (COSTLY, (), "See the fixes: add --diff"),
        (MILD, ("a.py",), "Read more: tcprobe explain TC101"),
        (
            replace(MILD, severity="note", dtype="float32"),
            ("a.py",),
            "See what these sizes cost in float16: tcprobe audit-shapes --dtype float16 a.py",
        ),
        (  # what is unknown in float32 is unknown in float16
            replace(MILD, severity="note", dtype="float32", why=say("dtype_unknown")),
            ("a.py",),
            "See what was not judged: tcprobe audit-shapes --verbose a.py",
        ),
        (FREE, ("--fix", "a.py"), "See what was not judged: tcprobe audit-shapes --verbose a.py"),
        (
            FREE,
            ("--arg", "token=x", "a.py"),
            "See what was not judged: tcprobe audit-shapes --verbose --arg 'token=***' a.py",
        ),
        (FREE, ("-v", "a.py"), "Found 1 note (1 suppressed)."),
    ],
)
def test_the_last_line_is_the_next_command(finding: Finding, typed: tuple[str, ...], last: str) -> None:
    assert text(finding, typed=typed).splitlines()[-1] == last


@pytest.mark.parametrize("option", ["--verbose", "-v"])
def test_what_was_asked_for_is_not_suggested(option: str) -> None:
    assert text(FREE, typed=(option, "a.py")).splitlines()[-1].startswith("Found 1 note")


def test_nothing_left_to_do_ends_with_the_count() -> None:
    nothing = document(AuditReport((Audited("m", FILE, "source", layers=4),)))
    assert rendered("text", nothing).splitlines()[-1] == "Found nothing in 4 layers."


def test_what_was_not_judged_is_not_called_nothing() -> None:
    blind = replace(audited(()), suppressed=())
    assert words.tally(AuditReport((blind,))) == "Found nothing in 9 layers, but 3 things could not be judged."


def test_a_reason_does_not_name_its_file_again() -> None:
    assert words.reason("/a/b.py", "/a/b.py: line 1: no") == "line 1: no"


def test_an_assumed_policy_is_not_told_of_where_dtype_overrides_it() -> None:
    assumed = replace(audited(), notes=(), policy_assumed=True)
    assert words.limit_notes(AuditReport((assumed,))) == [
        "No precision policy is set in this file: Keras' default, float32, is assumed."
    ]
    assert words.limit_notes(AuditReport((replace(assumed, dtype="float16"),))) == []


def test_a_gpu_that_the_code_asked_for_is_told_with_its_place() -> None:
    call = "tensorflow.config.list_physical_devices"
    answer = "the answer is that of the machine it is predicted for: there is one."
    says = f"Where the code asks for a GPU ({call}%s), {answer}"

    def notes(*asked: GpuAsked) -> list[str]:
        return words.limit_notes(AuditReport((replace(audited(), notes=(), gpu_asked=asked, dtype="float16"),)))

    own = GpuAsked(call, Place(audited().file, 6))
    assert notes() == []
    assert notes(own) == notes(own, GpuAsked("torch.cuda.is_available")) == [says % ", line 6"]
    assert notes(GpuAsked(call)) == [says % ""]
    assert notes(GpuAsked(call, Place("/else/machine.py", 3))) == [says % ", machine.py:3"]
    assert notes(GpuAsked(call, Place(audited().file, 9, in_cell=CellLine(3, 5, 60)))) == [says % ", cell 3:5"]


def left(n: int, why: WhyKind, **more: Any) -> Finding:
    """Return a note on a size that is best left, on a line of its own."""
    reason: Statement[WhyKind] = say(why)
    about = About("Dense", f"dense_{n}", "units", n)
    says: Statement[FindingKind] = say("best_left", subject=about, multiple=8, why=reason)
    place, name = Place(FILE, 40 + n), f"dense_{n}"
    return replace(FREE, code="TC104", says=says, place=place, layer=name, size=n, why=reason, **more)


def test_what_limits_some_of_several_files_names_them() -> None:
    limited = [replace(audited(()), file=f"{ROOT}/m{n}.py", notes=("the file is too long",)) for n in range(6)]
    other = replace(audited(()), file=f"{ROOT}/other.py", notes=())
    assert words.limit_notes(AuditReport((limited[0],))) == ["The file is too long."]
    assert words.limit_notes(AuditReport((limited[0], limited[0]))) == ["The file is too long."]
    assert words.limit_notes(AuditReport((*limited[:2], other))) == ["m0.py and m1.py: the file is too long."]
    assert words.limit_notes(AuditReport((*limited, other))) == [
        "m0.py, m1.py, m2.py and 3 more: the file is too long."
    ]


def test_sizes_that_are_best_left_are_one_line_and_verbose_lists_them() -> None:
    findings = (COSTLY, left(3, "few_channels_slower"), left(7, "tiny_product"), left(9, "tiny_product"))
    said = text(*findings)
    assert "3 sizes are best left as they are: sizes up to 16 (2), channels of images (1); --verbose lists them" in said
    assert "TC104" not in said
    assert "Found 1 error, 3 notes" in said
    assert text(*findings, verbose=True).count("TC104") == 3


def test_one_line_is_no_shorter_than_another() -> None:
    assert text(COSTLY, left(7, "tiny_product")).count("TC104") == 1


def test_what_a_note_says_besides_is_never_folded_away() -> None:
    """A convolution of one filter is to be judged again in 16 bits; a size of unknown cost is not left alone."""
    unknown: Statement[WhyKind] = say("product_sizes_unknown", takes=(), own=(), input=None)
    kept = replace(left(7, "tiny_product"), why=say("no_gain")), replace(left(8, "tiny_product"), why=unknown)
    said = text(*kept, left(9, "tiny_product"), left(10, "tiny_product"))
    assert said.count("TC104") == 2
    assert "2 sizes are best left" in said


def test_a_reason_beside_that_for_no_fix_is_folded_too() -> None:
    reason: Statement[WhyKind] = say("no_fix", beside=say("tiny_product"), reason=say("unproven"))
    assert "TC104" not in text(replace(left(7, "tiny_product"), why=reason), left(9, "tiny_product"))


def test_markdown_counts_them_and_data_has_all() -> None:
    told = AuditReport((audited((COSTLY, left(7, "tiny_product"), left(9, "tiny_product"))),), root=ROOT)
    page = rendered("markdown", document(told, SPEC))
    assert "2 sizes are best left as they are: sizes up to 16 (2); `--verbose` lists them." in page
    assert "TC104" not in page
    for form in ("csv", "json", "sarif", "github"):
        assert rendered(form, document(told, SPEC)).count("TC104") >= 2


def screen_text(report: AuditReport) -> str:
    lines = audit_fold.screen_of(report, ROOT, None, 80).lines
    return " ".join(" ".join(part.text for part in line.parts) for line in lines)


@pytest.mark.parametrize(
    ("step_ns", "said"), [(5e5, "So short a step hardly shows it"), (5e6, "cost nothing or little")]
)
def test_what_a_step_is_too_short_to_show_is_told_as_that(step_ns: float, said: str) -> None:
    """Half a millisecond, of which 41 us likely go: a note, as the host takes longer, and the text has the same 8 %."""
    cost = Range(0.0, 41e3, 48.4e3)
    note = replace(COSTLY, severity="note", saving_ns=cost, saving_pct=cost.scaled(100.0 / step_ns))
    one = replace(audited((note,)), step_ns=Range(step_ns, step_ns, step_ns), total_saving_ns=cost)
    one = replace(one, is_short=step_ns < 1e6)
    short = screen_text(AuditReport((one,), root=ROOT))
    assert said in short and ("1 layer is badly sized; it costs likely 41 us" in short) is (step_ns < 1e6)
    if step_ns < 1e6:
        assert "(8.2 %), at most 49 us" in short and "No badly sized" not in short and "Notes" not in short
        assert words.gains(AuditReport((one,), root=ROOT), None)[0].endswith(f": 8.2 %. {words.HIDDEN}.")
