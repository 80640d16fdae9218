"""Many files in several processes: the same report as one after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tcprobe.flows.audit import flow
from tcprobe.flows.audit.files import AuditFile
from tcprobe.flows.audit.models import Auditor
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
    assert first.choice.known is not None
    assert flow.write_baseline(first, first.choice.known) == 39
    (folder / "m03.py").write_text(MODEL.format(inputs=1024).replace("4090", "4096"))
    second = flow.audit(options, lambda _: None)
    assert second.report.findings() == []
    assert sum(len(a.known) for a in second.report.audited) == len(first.report.findings()) - 1
    assert second.report.baseline is not None
    assert second.report.baseline.gone == 1


@pytest.mark.parametrize("dies", [("m09.py",), ("m00.py", "m39.py")])
def test_a_process_that_dies_costs_the_file_it_died_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dies: tuple[str, ...]
) -> None:
    monkeypatch.setattr("tcprobe.flows.audit.parallel.cores", lambda: 2)
    add = Auditor.add

    def killed(self: Auditor, target: AuditFile) -> None:
        if target.path.name in dies:
            os.kill(os.getpid(), signal.SIGKILL)
        add(self, target)

    monkeypatch.setattr(Auditor, "add", killed)
    report = outcome(folder, monkeypatch, 2).report
    failed = {Path(path).name: why for path, why in report.failed}
    assert sorted(failed) == sorted([*dies, "m07.py"])
    assert all("was killed" in failed[name] for name in dies)
    assert len(report.audited) == 39 - len(dies)


def test_an_interrupt_ends_all_processes_at_once(folder: Path) -> None:
    code = (
        "import sys, time, tcprobe.flows.audit.parallel as parallel, tcprobe.flows.audit.models as models\n"
        "parallel.cores = lambda: 2\n"
        "models.Auditor.add = lambda *_: print('at it', flush=True) or time.sleep(60)\n"
        "from tcprobe.__main__ import main\n"
        f"sys.argv = ['tcprobe', 'audit-shapes', '--mode', 'source', {str(folder)!r}]\n"
        "sys.exit(main())\n"
    )
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.read(5) == "at it"
    started.send_signal(signal.SIGINT)  # the main process alone, as `kill -INT` does
    _, said = started.communicate(timeout=30)
    assert started.returncode == 130
    assert "Traceback" not in said
