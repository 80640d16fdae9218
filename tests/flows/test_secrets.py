"""Secrets of a command line: the workload gets them, and no file of the run folder holds them."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tcprobe.capture.base import CaptureRequest, Invocation, NsysOptions
from tcprobe.capture.probed import install_probe
from tcprobe.flows.profile import ProfileOptions, ProfileOutcome, profile
from tcprobe.flows.report import make_report
from tcprobe.masking import without_secrets
from tcprobe.probe.config import SecretsGoneError, load_config
from tcprobe.report import RenderSpec, renderers
from tcprobe.report.document import ReportSpec
from tcprobe.report.run.document import RunDocument
from tests import warm
from tests.support import ROOT, needs_tensorflow

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
QUIET = WORKLOAD.partition("print(")[0]
"""What a workload prints, Nsight Systems stores."""
TRAINING = """
import json, sys
import tensorflow as tf
@tf.function
def train_step(x):
    return tf.matmul(x, x)
for number in range(12):
    train_step(tf.ones((8, 8)))
with open("seen.txt", "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
"""
RANKS = ("sh", "-c", '"$@" & "$@"; wait; "$@"', "sh", "env", f"NGC_API_KEY={SECRETS[4]}")
"""A launcher that starts the workload twice at a time and, when both have ended, once more."""


def test_the_workload_gets_its_secrets_and_no_file_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TCPROBE_LAUNCHER", f"docker run -e TOKEN={SECRETS[5]} image")
    outcome = _run(WORKLOAD, "tensorflow", launcher=RANKS)
    assert _seen() == [list(WORDS)] * 3
    record = json.loads((outcome.folder / "run.json").read_text())
    assert record["command"][:5] == ["t.py", "--token", "***", "API_KEY=***", "--url"]
    assert record["environment"]["TCPROBE_LAUNCHER"] == "docker run -e TOKEN=*** image"
    assert "loss,2.5" in (outcome.folder / "probe/metrics.csv").read_text()
    _check_no_secret(outcome.folder, SECRETS)


@pytest.mark.nsys
def test_nsight_systems_sees_no_secret_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    outcome = _run(QUIET, "nsys", said=said, nsys=NsysOptions(("--capture-range=none",)))
    assert _seen() == [list(WORDS)]
    assert (outcome.folder / "raw/nsys/report.nsys-rep").exists() and (
        outcome.folder / "raw/nsys/report.sqlite"
    ).exists()
    _check_no_secret(outcome.folder, SECRETS)
    (private,) = (line for line in said if "raw/nsys" in line)
    assert "the whole environment" in private and "arguments" not in private


def test_dlprof_sees_no_secret_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{ROOT / 'tests/fixtures/fake_dlprof'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OF_THE_ENVIRONMENT", "is-stored")
    outcome = _run(QUIET, "dlprof")
    assert _seen() == [list(WORDS)]
    assert any(_holds(path, "is-stored") for path in (outcome.folder / "raw/dlprof").iterdir())  # the search works
    _check_no_secret(outcome.folder, SECRETS)


@needs_tensorflow
def test_tensorflows_profiler_sees_no_secret_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = _run(TRAINING, "tensorflow", python=warm.python(), step_function="train_step")
    assert outcome.exit_code == 0 and _seen() == [list(WORDS)]
    assert list(outcome.folder.glob("raw/**/*.xplane.pb"))
    _check_no_secret(outcome.folder, SECRETS)


def _run(workload: str, profiler: str, said: list[str] | None = None, **options: Any) -> ProfileOutcome:
    Path("t.py").write_text(workload)
    options = {"python": sys.executable, **options}
    return profile(
        ProfileOptions(("t.py", *WORDS), profiler=profiler, **options), say=said.append if said is not None else str
    )


def _seen() -> list[list[str]]:
    return [json.loads(line) for line in Path("seen.txt").read_text().splitlines()]


def _check_no_secret(folder: Path, secrets: Sequence[str]) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 50
    for path in files:
        assert not [secret for secret in secrets if _holds(path, secret)], path


def _holds(path: Path, secret: str) -> bool:
    """Say whether a file holds a text: as it is, in JSON, in UTF-16 or in base64, also in the values of a database."""
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(path)) as opened:  # a value may lie in pieces on several pages
            data += "\n".join(opened.iterdump()).encode()
    return any(form in data for form in _forms(secret))


def _forms(secret: str) -> Iterator[bytes]:
    yield secret.encode()
    yield json.dumps(secret)[1:-1].encode()
    yield secret.encode("utf-16-le")
    for text in (secret.encode(), json.dumps(secret)[1:-1].encode()):
        for offset in range(3):  # where a group of three bytes begins; what a neighbour shares is left out
            coded = base64.b64encode(bytes(offset) + text)[(0, 2, 3)[offset] :]
            whole = coded[: len(coded) - (0 if (offset + len(text)) % 3 == 0 else 4 - (offset + len(text)) % 3)]
            yield from (whole, whole.replace(b"+", b"-").replace(b"/", b"_"))


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_the_search_finds_what_was_coded(before: str, tmp_path: Path) -> None:
    coded = base64.urlsafe_b64encode(json.dumps([before, SECRETS[0], "after"]).encode())
    (tmp_path / "a").write_bytes(b"..." + coded)
    with closing(sqlite3.connect(tmp_path / "b")) as made, made:
        made.execute("CREATE TABLE t (v)")
        made.execute("INSERT INTO t VALUES (?)", ("z" * 4000 + before + SECRETS[0] + "z" * 4000,))
    assert _holds(tmp_path / "a", SECRETS[0]) and _holds(tmp_path / "b", SECRETS[0])
    assert not _holds(tmp_path / "a", "hunter3-secret") and not _holds(tmp_path / "b", "hunter3-secret")


def test_the_probe_starts_no_workload_without_its_secrets(tmp_path: Path) -> None:
    request = CaptureRequest(Invocation("script", "t.py", WORDS), tmp_path, sys.executable)
    install_probe(request, profile=True)
    config, words = tmp_path / "probe/config.json", tmp_path / "probe/words.json"
    assert load_config(str(config)).argv == list(WORDS)
    assert words.stat().st_mode & 0o777 == 0o600
    for damaged in ("", "{}", '{"argv": 1, "secrets": []}', "[]", None):
        words.unlink() if damaged is None else words.write_text(damaged)
        with pytest.raises(SecretsGoneError, match=str(words)):
            load_config(str(config))


def test_words_without_secrets_make_no_file(tmp_path: Path) -> None:
    install_probe(CaptureRequest(Invocation("script", "t.py", ("--epochs", "3")), tmp_path, sys.executable), True)
    assert not (tmp_path / "probe/words.json").exists()


def test_secrets_that_a_killed_tcprobe_left_are_named(tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe/words.json").write_text("{}")
    (tmp_path / "run.json").write_text('{"tcprobe": "0.1.0", "workload": "t.py", "exit_code": null}')
    (note,) = (note for note in make_report(tmp_path).metadata.notes if note.code == "secrets-left")
    assert "probe/words.json" in note.message and note.remedy


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
        if renderer.name not in ("csv", "perfetto"):
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
