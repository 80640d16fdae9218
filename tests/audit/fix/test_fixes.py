"""Fixes of sizes: golden pairs, what belongs together, and texts that are edited."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.audit.fix.fixes import with_fixes
from tcprobe.audit.fix.write import apply, diff, edited
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.errors import InputError
from tcprobe.report.audit.words import fixing, why
from tcprobe.rules.model.step import Step
from tcprobe.schema.finding import Edit, Finding, Fix, Range
from tcprobe.schema.model import Place
from tcprobe.schema.statement import say
from tests.audit.fix.fixes.whole import TARGET, Whole, whole

FOLDER = Path(__file__).parent / "fixes"
GOLDEN = sorted(path.stem for path in FOLDER.glob("*.after"))
HEAD = "import keras\nfrom keras import layers\n"


def pair(name: str) -> tuple[str, str]:
    before, after = ((FOLDER / f"{name}.{kind}").read_bytes().decode() for kind in ("before", "after"))
    return before, after


def sequential(*layers: str) -> str:
    return f"{HEAD}m = keras.Sequential([keras.Input((64,)), {', '.join(f'layers.{x}' for x in layers)}])\n"


def on_63(audited: Whole) -> list[Finding]:
    return [f for f in audited.findings if f.size == 63 and f.dimension == "units"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, line_end: str) -> None:
    before, after = (text.replace("\n", line_end) for text in pair(name))
    audited = whole(before)
    assert audited.mended == after
    assert all(not f.fix.safe and f.fix.edits for f in audited.findings if f.fix is not None)
    assert [f for f in whole(after).findings if f.fix is not None] == []


@pytest.mark.parametrize("name", GOLDEN)
def test_a_fix_holds_alone(name: str) -> None:
    """Each fix is whole by itself: made alone, the file parses, and the next run makes the others."""
    text, after = pair(name)
    for _ in range(8):
        fixes = [f for f in whole(text).findings if f.fix is not None]
        if not fixes:
            break
        text = apply(fixes[:1], {"/model.py": parse_source(text, "/model.py")})["/model.py"]
        ast.parse(text)
    assert text == after


@pytest.mark.parametrize("name", GOLDEN)
def test_only_numbers_change(name: str) -> None:
    before, after = (list(tokens(text)) for text in pair(name))
    different = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert different
    assert all(a[0] == b[0] == tokenize.NUMBER for a, b in different)


def tokens(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        yield token.type, token.string


def test_findings_of_one_literal_share_a_fix() -> None:
    first, second = on_63(whole(HEAD + "N = 63\n" + sequential("Dense(N)", "Dense(N)", "Dense(16)")))
    assert first.fix is not None and first.fix == second.fix
    assert fixing(first.fix) == "change units 63 to 64"
    text = sequential("Embedding(9, 63)", "Add()", "Dense(16)")
    both = text.replace("layers.Add()", "layers.LSTM(63)")
    assert {fixing(f.fix) for f in whole(both).findings if f.fix} == {
        "change units 63 to 64",
        "change output_dim 63 to 64",
    }


def test_a_name_that_only_sizes_have_is_nothing_else_that_its_number_stands_for() -> None:
    text = sequential("Dense(UNITS)", "Dense(63)", "Dense(64)").replace("m =", "UNITS = 63\nm =")
    mended = whole(text).mended
    assert "UNITS = 64" in mended and "63" not in mended
    other = whole(f"{text}print(UNITS)\n").mended
    assert "UNITS = 63" in other and "Dense(63)" in other  # whether that one is the same size nobody can tell


def test_one_literal_cannot_become_two_numbers_and_nobody_changes_what_was_not_asked_for() -> None:
    source = parse_source("N = 63\n" + sequential("Dense(N)", "Dense(N)", "Dense(16)"), "/model.py")
    (model,) = read_model(source, 4096)
    step = Step(model, TARGET)
    first, second = on_63(whole(source.text))
    bare = [replace(f, fix=None) for f in (first, second)]

    def fixed(*findings: Finding) -> list[Fix | None]:
        return [f.fix for f in with_fixes(findings, step, {source.path: source}, (), read_model)]

    assert fixed(*bare) == [first.fix, first.fix]
    assert fixed(bare[0], replace(bare[1], suggested=72)) == [None, None]
    assert fixed(bare[0]) == [None]
    free = [replace(f, severity="note", saving_ns=Range(0.0, 0.0, 0.0)) for f in bare]
    assert fixed(*free) == [None, None]  # what costs nothing is left alone
    assert fixed(free[0], bare[1]) == [first.fix, first.fix]
    own = Fix(say("scale_as_keras_3"), (Edit(Place("/model.py", 1, 1, 1, 7), "import", "import"),), safe=True)
    assert fixed(replace(bare[0], fix=own)) == [own]


def test_the_reason_is_told() -> None:
    batch = 1 << 21  # of so small layers, what takes the GPU more than a millisecond
    (found,) = on_63(whole(sequential("Dense(60 + 3)", "Dense(16)"), batch=batch))
    assert why(found) == (
        "no fix: units is neither a number in the layer's own call nor a name that the file assigns once"
    )
    (found,) = on_63(whole(sequential("Dense(63)", "Dense(16)") + "load(63)\n", batch=batch))
    assert why(found) == "no fix: 63 stands for something else in the file as well"


def test_the_size_of_a_head_is_mended_alone() -> None:
    text = HEAD + "x = keras.Input((16, 64))\nm = keras.Model(x, layers.MultiHeadAttention(4, key_dim=25)(x, x))\n"
    assert whole(text).mended == text.replace("25", "32")


def test_a_constant_that_another_file_names_stays() -> None:
    text = "N = 63\n" + sequential("Dense(N)", "Dense(16)")
    assert whole(text, other="from model import M\n").mended != text
    assert whole(text, other="from model import N\nprint(N)\n").mended == text


def test_installed_code_stays() -> None:
    text = sequential("Dense(63)", "Dense(16)")
    assert whole(text, path="/project/model.py").mended != text
    assert whole(text, path="/venv/lib/python3.11/site-packages/keras/model.py").mended == text


def test_diff_of_several_files() -> None:
    sources, findings = {}, []
    for name in ("b", "a"):
        path = f"/project/{name}.py"
        text = sequential("Dense(63)", "Dense(16)").rstrip("\n")
        sources[path] = parse_source(text, path)
        findings += whole(text, path=path).findings
    lines = diff(findings, sources, "/project").splitlines()
    names = ["--- a/a.py", "+++ b/a.py", "--- a/b.py", "+++ b/b.py"]
    assert [x for x in lines if x.startswith(("---", "+++"))] == names
    assert lines.count("\\ No newline at end of file") == 4
    assert [x[:4] for x in lines if "Dense" in x] == ["-m =", "+m ="] * 2
    assert diff([], sources) == ""


def test_edits_of_a_text_that_changed_are_refused() -> None:
    edit = Edit(Place("/m.py", 1, 5, 1, 7), "63", "64")
    assert edited("N = 63", [edit], "/m.py") == "N = 64"
    for text in ("M  = 63", "", "N = 6"):
        with pytest.raises(InputError, match="changed since it was read"):
            edited(text, [edit], "/m.py")


def test_fixes_that_clash_are_made_one_at_a_time() -> None:
    source = parse_source("N = 63\nM = 1\n", "/m.py")
    here = Place("/m.py", 1, 5, 1, 7)
    one = Fix(say("scale_as_keras_3"), (Edit(here, "63", "64"),))
    two = Fix(say("scale_as_keras_3"), (Edit(here, "63", "72"), Edit(Place("/m.py", 2, 5, 2, 6), "1", "8")))
    assert apply([one, two, one, None], {"/m.py": source}) == {"/m.py": "N = 64\nM = 1\n"}
