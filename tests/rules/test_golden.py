"""Golden pairs: a realistic file and what the rules on sizes say of it. `--update-golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.audit.source.read import read_source
from tcprobe.rules.base import Subject
from tcprobe.rules.registry import RULES, Rule
from tcprobe.schema.model import Model
from tcprobe.source.source import Source
from tests import warm
from tests.rules.builders import golden, step_of

FOLDER = Path(__file__).with_name("golden")
FILES = sorted(FOLDER.glob("tc1*.py"))
SIZES = [rule for rule in RULES if rule.code.startswith("TC1")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_says_what_its_pair_holds(path: Path, request: pytest.FixtureRequest) -> None:
    lines, expected = golden(path, SIZES, bool(request.config.getoption("--update-golden", default=False)))
    assert lines == expected


@pytest.mark.parametrize("rule", SIZES, ids=lambda rule: rule.code)
def test_every_rule_has_a_pair_in_which_it_speaks_and_one_in_which_it_is_silent(rule: Rule) -> None:
    code = rule.code
    said = [code in path.with_suffix(".txt").read_text(encoding="utf-8") for path in FILES]
    assert any(said)
    assert not all(said)


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["tc101_gan", "tc103_groups", "tc106_attention", "tc107_recurrent"])
def test_tracing_finds_the_same_as_reading(name: str) -> None:
    from tcprobe.audit.source.read import read_model
    from tcprobe.audit.trace.traced import TraceRequest, trace

    path = FOLDER / f"{name}.py"
    source = read_source(path)
    read = sizes_in(read_model(source), source)
    assert read
    assert sizes_in(trace(TraceRequest(path, python=warm.python())), source) == read


def sizes_in(models: list[Model], source: Source) -> set[tuple[object, ...]]:
    """Return code, layer, dimension, size and suggestion of all findings; a trace names the model before its layers."""
    subjects = [Subject(model, step_of(model), {source.path: source}) for model in models]
    found = [f for given in subjects for rule in SIZES for f in rule.check(given)]
    return {(f.code, (f.layer or "").rpartition("/")[2], f.dimension, f.size, f.suggested) for f in found}
