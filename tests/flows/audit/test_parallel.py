"""Many files in several processes: the same report as one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.flows.audit import flow
from tcprobe.flows.audit.options import AuditOptions

MODEL = """import keras

model = keras.Sequential([keras.Input(({inputs},)), keras.layers.Dense(4090), keras.layers.Dense(16)])
"""
BROKEN = "def f(:\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(40):
        (tmp_path / f"m{number:02d}.py").write_text(MODEL.format(inputs=1024 + 8 * number))
    (tmp_path / "m07.py").write_text(BROKEN)
    (tmp_path / "m20.py").write_text(MODEL.format(inputs=512) + "x = 1  # noqa: TC101\n")
    return tmp_path


def outcome(folder: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> flow.AuditOutcome:
    monkeypatch.setattr(flow, "MANY_FILES", many)
    return flow.audit(AuditOptions(files=(str(folder),), mode="source"), lambda _: None)


def test_the_report_is_that_of_one_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcprobe.flows.audit.parallel.cores", lambda: 2)
    one, several = (outcome(folder, monkeypatch, many) for many in (1000, 2))
    assert several.report == one.report
    assert len(several.report.audited) == 39
    assert [Path(path).name for path, _ in several.report.failed] == ["m07.py"]
    assert [place.line for place, _ in several.report.unused] == [4]
    assert set(several.sources) == set(one.sources)
    assert several.exit_code == one.exit_code == 2


def test_each_file_is_judged_once_where_processes_share_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcprobe.flows.audit.parallel.AT_ONCE", 3)
    monkeypatch.setattr("tcprobe.flows.audit.parallel.cores", lambda: 2)
    names = [Path(a.file).name for a in outcome(folder, monkeypatch, 2).report.audited]
    assert names == sorted(names)
    assert len(set(names)) == len(names) == 39


def test_known_findings_are_those_of_one_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcprobe.flows.audit.parallel.cores", lambda: 2)
    monkeypatch.setattr(flow, "MANY_FILES", 2)
    options = AuditOptions((str(folder),), mode="source", baseline=str(folder / "known.json"), write_baseline=True)
    first = flow.audit(options, lambda _: None)
    assert first.choice.baseline is not None
    assert flow.write_baseline(first, first.choice.baseline) == 39
    (folder / "m03.py").write_text(MODEL.format(inputs=1024).replace("4090", "4096"))
    second = flow.audit(options, lambda _: None)
    assert second.report.findings() == []
    assert sum(len(a.known) for a in second.report.audited) == len(first.report.findings()) - 1
    assert second.report.baseline is not None
    assert second.report.baseline.gone == 1
