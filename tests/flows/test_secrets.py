"""Secrets of a command line: the workload gets them, and no file of the run folder holds them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tcprobe.capture.base import CaptureRequest, Invocation
from tcprobe.capture.probed import orders, secret_words
from tcprobe.flows.profile import ProfileOptions, profile
from tcprobe.flows.report import make_report
from tcprobe.masking import without_secrets
from tcprobe.probe.config import SecretsGoneError, load_config
from tcprobe.probe.constants import SECRET_WORDS
from tcprobe.report import renderers
from tcprobe.report.base import RenderSpec
from tcprobe.report.run.document import RunDocument
from tcprobe.report.run.spec import ReportSpec

SECRETS = ("hunter2-secret", 'quo"ted ü', "pw-of-url", "bearer-of-header", "key-of-launcher", "key-of-variable")
WORDS = (
    *("--token", SECRETS[0], f"API_KEY={SECRETS[1]}", "--url", f"https://me:{SECRETS[2]}@host/x"),
    *("-H", f"Authorization: Bearer {SECRETS[3]}", "--max-tokens", "256"),
)
WORKLOAD = """
import json, os, sys
with open("seen.txt", "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
print("loss: 1.5 hunter2-secret loss: 2.5", flush=True)
open("/nosuch/" + sys.argv[2])
"""
TWICE = ("sh", "-c", '"$@"; "$@"', "sh", "env", f"NGC_API_KEY={SECRETS[4]}")
"""A launcher that starts the workload and, when it has ended, once more."""


def test_the_workload_gets_its_secrets_and_no_file_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TCPROBE_LAUNCHER", f"docker run -e TOKEN={SECRETS[5]} image")
    Path("t.py").write_text(WORKLOAD)
    outcome = profile(ProfileOptions(("t.py", *WORDS), launcher=TWICE, python=sys.executable))
    assert [json.loads(line) for line in Path("seen.txt").read_text().splitlines()] == [list(WORDS)] * 2
    record = json.loads((outcome.folder / "run.json").read_text())
    assert record["command"][:5] == ["t.py", "--token", "***", "API_KEY=***", "--url"]
    assert record["environment"]["TCPROBE_LAUNCHER"] == "docker run -e TOKEN=*** image"
    assert SECRET_WORDS not in record["environment"]
    assert "loss,2.5" in (outcome.folder / "probe/metrics.csv").read_text()
    _check_no_secret(outcome.folder, secret_words(_request(outcome.folder))[SECRET_WORDS])


def _check_no_secret(folder: Path, carried: str) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 50
    for path in files:
        text = path.read_bytes()
        for secret in (*SECRETS, carried):
            assert not any(form in text for form in (secret.encode(), json.dumps(secret)[1:-1].encode())), path


def _request(folder: Path) -> CaptureRequest:
    return CaptureRequest(Invocation("script", "t.py", WORDS), folder, sys.executable)


def test_the_probe_starts_no_workload_without_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request, config = _request(tmp_path), tmp_path / "config.json"
    config.write_text(json.dumps(orders(request, profile=True)))
    monkeypatch.setenv(SECRET_WORDS, secret_words(request)[SECRET_WORDS])
    assert load_config(str(config)).argv == list(WORDS)
    for gone in ("", "nonsense", "e30=", secret_words(_request(tmp_path))[SECRET_WORDS][:-8]):
        monkeypatch.setenv(SECRET_WORDS, gone)
        with pytest.raises(SecretsGoneError):
            load_config(str(config))


def test_a_run_folder_of_an_earlier_version_is_masked_as_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    run = {
        "tcprobe": "0.1.0",
        "workload": "t.py",
        "command": ["t.py", *WORDS],
        "exit_code": 0,
        "partial": False,
        "notes": [{"code": "x", "message": "it got --token hunter2-secret", "remedy": None, "level": "warning"}],
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    document = RunDocument(make_report(tmp_path), ReportSpec())
    for renderer in renderers("run"):
        if renderer.name != "csv":
            with (tmp_path / "out.txt").open("w+", encoding="utf-8") as out:
                renderer.render(document, RenderSpec(), out)
                out.seek(0)
                text = out.read()
            assert "max-tokens" in text.replace("\\", "")
            assert not [secret for secret in SECRETS if secret in text]


def test_an_error_has_no_secret_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tcprobe", "profile", "t.py", "--token", "hunter2"])
    assert without_secrets("/x/hunter2: no such file") == "/x/***: no such file"
    assert without_secrets("docker run -e TOKEN=abc i: no such program") == "docker run -e TOKEN=*** i: no such program"
