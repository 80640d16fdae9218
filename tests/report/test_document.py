"""A document made by hand, as a comparison of runs would be: every format renders it, no raw value is lost."""

from __future__ import annotations

import json

from tcprobe.formatting import duration, percent
from tcprobe.report.document import (
    Cell,
    ColumnHead,
    Facts,
    Folded,
    Heading,
    LeftOut,
    Lines,
    NumberedList,
    Remark,
    Remarks,
    Section,
    TextLine,
    TextPart,
    sections,
    wrapped_line,
)
from tests.report.builders import Plain, rendered

BEFORE, AFTER, SHARE = 12345678.123456789, 2**53 + 1, 100 / 3


def row(kernel: str, before: float, after: int | None, share: float | None) -> tuple[Cell | str, ...]:
    times = (Cell(duration(before), before, "ns"), Cell(duration(after), after, "ns"))
    return (kernel, *times, Cell(percent(share), share, "pct"))


HEADS = (
    ColumnHead("kernel", least=10),
    ColumnHead("before", right=True),
    ColumnHead("after", right=True),
    ColumnHead("Of it", right=True),
)
STEPS = Section(
    "Kernels (2; one step)",
    HEADS,
    (row("void gemm<__half>, x", BEFORE, AFTER, SHARE), row("gone", 0.1, None, None)),
    ("(1 more)",),
)
SMALL = Section("", (ColumnHead("n", right=True), ColumnHead("name", rank=1)), ((Cell("1,234", 1234), "a|b"),))
TOY = Plain(
    (
        Heading("Two runs", 1),
        Lines((wrapped_line("Run B is 20 % faster.", "strong"), wrapped_line("By kernel time."))),
        Facts((("run A", "runs/a"), ("B", "runs/b"))),
        NumberedList("What next", ("Profile longer.",)),
        STEPS,
        Remarks((Remark("warning", "one step only", "profile more"), Remark("note", "same GPU"))),
        Folded("More", (SMALL, Lines((wrapped_line("first"), wrapped_line("second")), bullets=True))),
        Lines((TextLine((TextPart("see "), TextPart("tcprobe report", "code"))),)),
        LeftOut("--width 0 shows all"),
    )
)


def test_text() -> None:
    assert rendered("text", TOY) == (
        "Two runs\n\n"
        "Run B is 20 % faster.\nBy kernel time.\n\n"
        "run A  runs/a\nB      runs/b\n\n"
        "What next\n1. Profile longer.\n\n"
        "Kernels (2; one step)\n"
        "kernel                 before      after   Of it\n"
        "void gemm<__half>, x  12.3 ms  9007199 s  33.3 %\n"
        "gone                   0.1 ns          -       -\n(1 more)\n\n"
        "warning: one step only\n  what to do: profile more\nnote: same GPU\n\n"
        "More\n\n    n  name\n1,234  a|b\n\n- first\n- second\n\n"
        "see tcprobe report\n"
    )


def test_text_on_a_narrow_terminal_wraps_paints_and_says_what_is_left_out() -> None:
    lines = rendered("text", TOY, width=24, color=True).splitlines()
    assert lines[0] == "\x1b[1mTwo runs\x1b[0m"
    assert "\x1b[33mwarning\x1b[0m: one step only" in lines
    wide = Plain(
        (
            Section("Wide (1)", (ColumnHead("a"), ColumnHead("b", rank=1)), (("x" * 15, "y" * 15),)),
            LeftOut("--all shows"),
        )
    )
    assert rendered("text", wide, width=60).count("left out") == 0
    assert rendered("text", wide, width=20).split() == [
        *("Wide", "(1)", "a", "x" * 15, "Columns", "are", "left", "out", "to", "fit", "20", "(Wide);"),
        *("--all", "shows."),
    ]


def test_a_wrapped_line_keeps_the_style_of_its_first_part() -> None:
    line = TextLine(
        (TextPart("a.py:1", "strong"), TextPart(": "), TextPart("TC101", "error"), TextPart(" is not a multiple")), "  "
    )
    text = rendered("text", Plain((Lines((line,)),)), width=16, color=True)
    assert text == "\x1b[1ma.py:1\x1b[0m: TC101 is\n  not a multiple\n"


def test_markdown() -> None:
    assert rendered("markdown", TOY) == (
        "# Two runs\n\n**Run B is 20 % faster.**\n\nBy kernel time.\n\n- run A: runs/a\n- B: runs/b\n\n"
        "## What next\n\n1. Profile longer.\n\n"
        "## Kernels (2; one step)\n\n| kernel | before | after | Of it |\n| --- | ---: | ---: | ---: |\n"
        "| void gemm&lt;\\_\\_half&gt;, x | 12.3 ms | 9007199 s | 33.3 % |\n| gone | 0.1 ns | - | - |\n\n(1 more)\n\n"
        "- **warning**: one step only *What to do:* profile more\n- **note**: same GPU\n\n"
        "<details><summary>More</summary>\n\n| n | name |\n| ---: | --- |\n| 1,234 | a\\|b |\n\n"
        "- first\n- second\n\n</details>\n\nsee `tcprobe report`\n"
    )


def test_what_json_cannot_hold_is_null() -> None:
    odd = Plain((), tree={"t": [{"n": float("nan"), "m": SHARE}]})
    assert json.loads(rendered("json", odd)) == {"t": [{"n": None, "m": SHARE}]}


def test_folded_tables_are_tables_too() -> None:
    assert list(sections(TOY.blocks)) == [STEPS, SMALL]
