"""What is not judged, in words."""

from __future__ import annotations

import pytest

from tcprobe.report.audit import unjudged, words
from tcprobe.schema.finding import Audited, AuditReport, UnjudgedFile
from tcprobe.schema.model import NotJudged, NotJudgedKind, Place, Unseen
from tests.report.audit.builders import FILE


def met(library: str, kind: NotJudgedKind, name: str, count: int, line: int = 1) -> NotJudged:
    return NotJudged(library, kind, name, count, Place(FILE, line))


LINEAR, CONV = met("PyTorch", "layer", "Linear", 8), met("PyTorch", "layer", "Conv2d", 4)
MODULE, MATMUL = met("PyTorch", "model", "Module", 2), met("TensorFlow", "product", "matmul", 1)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], ""),
        ([LINEAR, CONV], "12 layers of PyTorch (Linear 8, Conv2d 4)"),
        ([CONV, MODULE, LINEAR], "12 layers of PyTorch (Linear 8, Conv2d 4)"),
        ([MODULE], "2 models of PyTorch (Module 2)"),
        ([MATMUL, LINEAR], "8 layers of PyTorch (Linear 8), 1 product of TensorFlow (matmul 1)"),
        (
            [met("Flax", "layer", name, n) for n, name in enumerate("ABCDEF", 1)],
            "21 layers of Flax (F 6, E 5, D 4, C 3, 2 more)",
        ),
    ],
)
def test_layers_come_by_library_and_name_the_most_first(found: list[NotJudged], said: str) -> None:
    assert unjudged.phrase(found) == said


def test_several_models_of_a_file_share_what_is_not_judged() -> None:
    twice = AuditReport(tuple(Audited(name, FILE, "source", not_judged=(LINEAR, MODULE)) for name in "ab"))
    assert unjudged.count(twice) == 8


@pytest.mark.parametrize(
    ("audited", "said"),
    [
        (Audited("m", FILE, "source"), "Found nothing: no layer of a model."),
        (Audited("m", FILE, "source", layers=3), "Found nothing in 3 layers."),
        (Audited("m", FILE, "source", products=2), "Found nothing in 2 products."),
        (Audited("m", FILE, "source", not_judged=(LINEAR,)), "Found nothing, but 8 things could not be judged."),
        (
            Audited("m", FILE, "source", layers=1, not_judged=(MATMUL,)),
            "Found nothing in 1 layer, but 1 thing could not be judged.",
        ),
    ],
)
def test_no_layer_is_said_only_where_there_is_none(audited: Audited, said: str) -> None:
    assert words.tally(AuditReport((audited,))) == said


def test_a_failing_file_says_what_it_holds_once() -> None:
    report = AuditReport((Audited("m", FILE, "source", not_judged=(LINEAR,)),), unjudged=(UnjudgedFile(FILE, True),))
    ((file, why),) = unjudged.failing(report)
    assert (file, unjudged.line(report), unjudged.passing(report)) == (FILE, [], [])
    assert why.startswith("8 layers of PyTorch (Linear 8): ") and why.endswith("--allow-unjudged accepts that")


def test_the_reasons_of_a_failing_file_are_not_told_again() -> None:
    blind = Unseen("Dense", "units comes from a function argument", Place(FILE, 3))
    files = [Audited("m", file, "source", unseen=(blind,)) for file in (FILE, "/home/me/other.py")]
    report = AuditReport(tuple(files), unjudged=(UnjudgedFile(FILE, True), UnjudgedFile("/home/me/other.py", False)))
    assert [audited.file for audited in unjudged.untold(report).audited] == ["/home/me/other.py"]
    assert "units comes from a function argument (1)" in unjudged.failing(report)[0][1]


def test_a_file_of_a_folder_is_a_note() -> None:
    report = AuditReport((Audited("m", FILE, "source", not_judged=(LINEAR,)),), unjudged=(UnjudgedFile(FILE, False),))
    assert unjudged.failing(report) == []
    assert unjudged.passing(report) == ["1 file holds layers of which none could be judged."]
    assert unjudged.line(report)[0].startswith("Not judged: 8 layers of PyTorch (Linear 8): ")
