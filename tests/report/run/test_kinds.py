"""Kinds decide: whatever the sentences say, a report chooses, orders, folds and counts the same."""

from __future__ import annotations

import ast
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tcprobe.flows.report
from tcprobe.__main__ import main
from tcprobe.analysis.flow import with_advice
from tcprobe.report.run import advice, words
from tcprobe.report.run import advice as advice_words
from tcprobe.report.run.advice import with_texts
from tcprobe.rules.run.base import OffOp
from tcprobe.rules.words import Act
from tcprobe.schema import advice as advice_kinds
from tcprobe.schema import kinds
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import Blocker, SizeAdvice
from tcprobe.schema.profile import Note, Profile
from tests.fixtures.gpu_run import variants
from tests.fixtures.gpu_run.make import RUN, load
from tests.report.builders import MS, PROFILES, table
from tests.rules.run import builders as built
from tests.support import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
VARIANTS = (variants.refused, variants.without_launches, variants.gtx1650, variants.tf32_off)
PROFILE_FILES = (RUN, *sorted((FIXTURES / "xplane").glob("*.pb")), *sorted((FIXTURES / "dlprof").glob("*_*")))
WORDED = (
    (words.BLOCKER_WORDS, kinds.BLOCKERS), (words.SIZE_WORDS, kinds.SIZE_ADVICE),
    (advice_words.SAYS, advice_kinds.REMEDIES),
)  # fmt: skip
SENTENCE = re.compile("«.*?»", re.DOTALL)
TEXT_COLUMNS = {"summary": "reason", "kernels": "evidence"}
Told = Callable[[str], str]


@pytest.mark.parametrize(("worded", "known"), WORDED)
def test_every_kind_has_its_words(worded: Mapping[str, Any], known: Sequence[str]) -> None:
    assert set(worded) == set(known)


def as_it_is(text: str) -> str:
    """A sentence with marks around it, by which it is found in a report; one within it has none of its own."""
    return f"«{re.sub('[«»]', '', text)}»"


def token(_: str) -> str:
    """Another word each time."""
    return f"«{secrets.token_hex(4)}»"


def same_token(tokens: dict[str, str], text: str) -> str:
    """Another word for every sentence: those of notes and reasons are folded where they are the same."""
    return tokens.setdefault(text, token(text))


def replace_words(patch: pytest.MonkeyPatch, told: Told) -> None:
    """Let `told` stand for every sentence that the report makes of a kind."""
    for worded in (words.BLOCKER_WORDS, words.SIZE_WORDS):
        for kind, say in list(worded.items()):
            patch.setitem(worded, kind, _replaced(say, told))  # type: ignore[arg-type]
    for name, said in list(advice_words.SAYS.items()):
        patch.setitem(advice_words.SAYS, name, _retold_rule(said, told))  # type: ignore[arg-type]


def _replaced(say: Callable[..., str], told: Told) -> Callable[..., str]:
    return lambda *given: told(say(*given))


def _retold_rule(said: Callable[..., Act], told: Told) -> Callable[..., Act]:
    def retold(*given: Any, **fields: Any) -> Act:
        act = said(*given, **fields)
        return Act(told(act.title[:30]), why=tuple(map(told, act.why)))  # which fits in its column either way

    return retold


def replace_texts(profile: Profile, told: Told) -> Profile:
    """Let `told` stand for every note, absence, reason and evidence."""
    notes = tuple(_noted(note, told) for note in profile.metadata.notes)
    absent = {name: told(why) for name, why in profile.absent.items()}
    tables = [(profile.table(name), column) for name, column in TEXT_COLUMNS.items()]
    told_tables = [_retold(t, column, told) for t, column in tables if t is not None]
    return replace(profile.with_metadata(notes=notes), absent=absent).with_tables(*told_tables)


def _noted(note: Note, told: Told) -> Note:
    return replace(note, message=told(note.message), remedy=note.remedy and told(note.remedy))


def _retold(table: Table, column: str, told: Told) -> Table:
    return table.with_columns(**{column: [None if v is None else told(str(v)) for v in table.values(column)]})


def without_sentences(said: Any) -> Any:
    """Return a report without its sentences, and without the blanks that line up its columns."""
    if isinstance(said, dict):
        return {key: without_sentences(value) for key, value in said.items()}
    if isinstance(said, list):
        return [without_sentences(value) for value in said]
    return re.sub(r"[\s-]+", " ", SENTENCE.sub("«»", said)) if isinstance(said, str) else said


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., tuple[int, Any, str]]:
    """Return what makes a report in this process, its sentences replaced: exit code, report and errors without them."""

    def run(path: Path, told: Told, noted: Told, *options: str) -> tuple[int, Any, str]:
        analyse = tcprobe.flows.report.analyse
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no calibration"))
            patch.setattr("sys.argv", ["tcprobe", "report", str(path), *options])
            replace_words(patch, told)
            patch.setattr(
                tcprobe.flows.report,
                "analyse",
                lambda found, chosen: replace_texts(analyse(replace_texts(found, noted), chosen), noted),
            )
            code = _exit_code()
        out, errors = capsys.readouterr()
        made = json.loads(out) if "json" in options else out
        return code, without_sentences(made), without_sentences(errors)

    return run


def _exit_code() -> int:
    try:
        return main()
    except SystemExit as ended:
        return int(ended.code or 0)


def compared(report: Callable[..., tuple[int, Any, str]], path: Path) -> tuple[int, Any]:
    """Assert that a report is the same whatever its sentences are; return exit code and document."""
    tokens = partial(same_token, {})
    made = report(path, as_it_is, as_it_is, "--format", "json")
    assert report(path, token, tokens, "--format", "json") == made
    shown = report(path, as_it_is, as_it_is, "--top", "0")
    assert report(path, token, tokens, "--top", "0") == shown
    assert shown[0] == made[0]
    return made[:2]


@pytest.mark.parametrize("path", PROFILE_FILES, ids=lambda path: path.name)
def test_a_report_does_not_hang_on_its_sentences(path: Path, report: Callable[..., tuple[int, Any, str]]) -> None:
    code, made = compared(report, path)
    if path == RUN:
        assert code == 0
        assert [item["kind"] for item in made["advice"]] == [
            "feed_gpu",
            "fuse_kernels",
            "slice_filters",
            "larger_batch",
        ]
        assert {"slice", "change", "image"} <= {row["advice_kind"] for row in made["tables"]["bad_sizes"]}
        assert {row["advice"] for row in made["tables"]["bad_sizes"]} <= {"«»", "predicted: «»"}


@pytest.mark.parametrize("change", VARIANTS, ids=lambda change: change.__name__)
def test_nor_where_a_run_went_otherwise(
    change: Callable[[Any], Any], report: Callable[..., tuple[int, Any, str]], tmp_path: Path
) -> None:
    made = load()
    change(made)
    code, _ = compared(report, made.write(tmp_path / "run"))
    assert code == (2 if change is variants.refused else 0)


def every_kind() -> Profile:
    """A run with an op of every blocker and a size of every advice, each in a layer of its own."""
    ops = [
        {"op": f"op {kind}", "op_type": "MatMul", "tc_capable": "yes", "sum_ns": (40 + 7 * n) * MS, "tc_ns": 0,
         **Blocker(kind, dtype="float32", kernel=f"kernel_{n % 3}").columns()}
        for n, kind in enumerate(kinds.BLOCKERS)
    ]  # fmt: skip
    sizes = [
        {"layer": f"layer {kind}", "layer_class": "Dense", "dimension": "units", "size": 9 + n % 2,
         "next_size": 16, "multiple": 8, "basis": "graph", "kernel_ns": (90 - 5 * n) * MS, "share_pct": 9.0 - n / 2,
         "dtype": "float16",
         **SizeAdvice(kind, "Tesla T4", 40 + n, 50, "predicted").columns()}
        for n, kind in enumerate((*kinds.SIZE_ADVICE, *kinds.SIZE_ADVICE))
    ]  # fmt: skip
    kernel = {"kernel": "k", "sum_ns": 2000 * MS, "uses_tc": "no", "evidence": "its name"}
    tables = table("ops", *ops), table("bad_sizes", *sizes), table("kernels", kernel)  # type: ignore[arg-type]
    return with_advice(PROFILES["gpu"]().with_tables(*tables))


@pytest.mark.parametrize("make", [*PROFILES.values(), every_kind], ids=lambda make: make.__name__)
def test_what_to_do_first_is_chosen_without_a_word(
    make: Callable[[], Profile], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, steps = make().advice, advice.advice_sentences(make())
    replace_words(monkeypatch, token)
    profile = with_advice(replace_texts(make(), token))
    assert profile.advice == chosen
    told = advice.advice_sentences(profile)
    assert len(told) == len(steps) == min(len(chosen), advice.MOST_ACTIONS)
    assert not set(told) & set(steps)


def test_which_blockers_have_a_remedy() -> None:
    row = {"op": "a", "layer": None, "pass": None, "source": None, "op_type": "MatMul"}
    off = {kind: OffOp(row, Blocker(kind, dtype="float32"), 1.0) for kind in kinds.BLOCKERS}  # type: ignore[arg-type]
    cures = {kind: [item.kind for item in built.found(built.subject(op, total=1.0))] for kind, op in off.items()}
    assert {kind: found[0] for kind, found in cures.items() if found} == {
        "dtype": "mixed_precision", "tf32": "allow_tf32", "tf32_unknown": "check_tf32", "gpu": "use_gpu",
        "shape": "align_sizes", "shape_required": "align_sizes", "library": "library",
    }  # fmt: skip


def test_an_advice_is_folded_by_its_figures() -> None:
    rows = list(every_kind().require("bad_sizes").rows())
    by_kind: dict[str, set[SizeAdvice | None]] = {}
    for row in rows:
        by_kind.setdefault(str(row["advice_kind"]), set()).add(SizeAdvice.of(row))
    assert {len(found) for found in by_kind.values()} == {2}  # another rate, another sentence
    same = [SizeAdvice.of({**row, "rate_low_pct": 40, "layer": "x", "size": 9}) for row in rows]
    assert len(set(same)) == len(kinds.SIZE_ADVICE)


def test_the_advice_of_a_report_is_in_its_json() -> None:
    profile = PROFILES["gpu"]()
    first = advice.as_json(profile.advice[0])
    assert (first["kind"], first["layer"], first["pass"], first["share_pct"]) == (
        "slice_filters", "generator/conv2d_3", "wgrad", 42.0,
    )  # fmt: skip
    # of one step: 42 ms over the window's two, of 55 ms each
    assert (first["kernel_ns"], first["step_ns"], first["saving_ns"]) == (21 * MS, 55 * MS, 15 * MS)
    assert list(first["sizes"]) == [{"dimension": "filters", "size": 1, "next_size": 8}]
    assert first["blocker"]["kind"] == "library"
    assert first["text"] == advice.advice_sentences(profile)[0]


def test_texts_of_a_source_stay() -> None:
    row = {"op": "a", "tc_capable": "yes", "tc_blocker_kind": "tf32"}
    filled = with_texts(Profile(PROFILES["gpu"]().metadata).with_tables(
        table("ops", row, {**row, "tc_blocker": "as it said"}, {"op": "b", "tc_capable": "no"}))
    )  # fmt: skip
    assert filled.require("ops").values("tc_blocker") == ["TF32 off", "as it said", None]
    assert filled.table("gemms") is None


# --- the code reads no sentence ----------------------------------------------------------------------

COLUMNS = {"tc_blocker", "advice", "reason", "evidence"}
TAKING = {"values", "names", "get"}
ASKING = {
    "startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "find", "index",
    "search", "match", "fullmatch", "findall", "count",
}  # fmt: skip


def names_a_text(node: ast.AST) -> bool:
    """Whether an expression takes the text of a note, or of a text column."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("message", "remedy")
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in COLUMNS
    reads = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKING
    return reads and any(isinstance(a, ast.Constant) and a.value in COLUMNS for a in node.args)  # type: ignore[attr-defined]


def asks(node: ast.AST) -> bool:
    """Whether an expression asks what a text says."""
    if isinstance(node, ast.Compare):
        return all(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKING


def deciding(tree: ast.AST) -> list[int]:
    """Return the lines that ask what a sentence says."""
    return [n.lineno for n in ast.walk(tree) if asks(n) and any(map(names_a_text, ast.walk(n)))]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('row["tc_blocker"] == "none"', 1), ('"x" in str(row["advice"])', 1), ('row["advice"].startswith("no")', 1),
        ('re.search("a", str(row["reason"]))', 1), ('note.message.partition(":")', 1),
        ('table.values("tc_blocker").count("none")', 1), ('np.array(table.values("tc_blocker")) == "none"', 1),
        ('row["tc_blocker_kind"] == "none"', 0), ('row["advice"] is None', 0), ('f.visible(row["reason"])', 0),
    ],
)  # fmt: skip
def test_the_reading_of_sentences_is_seen(code: str, found: int) -> None:
    assert len(deciding(ast.parse(code))) == found


@pytest.mark.parametrize("room", ["analysis", "report/run", "readers", "flows", "cli"])
def test_no_code_reads_a_sentence_back(room: str) -> None:
    paths = [p for p in (ROOT / "tcprobe" / room).rglob("*.py") if "audit" not in p.parts]
    read = [f"{p}:{line}" for p in paths for line in deciding(ast.parse(p.read_text(encoding="utf-8")))]
    assert paths
    assert not read
