"""Audits of what is no file: scripts, settings, baselines, imported files; odd names; links out of a folder."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tcprobe.audit.settings import find_settings
from tcprobe.audit.source.read import read_source
from tcprobe.audit.trace.traced import TraceRequest, trace
from tcprobe.calibration.files import read_raw
from tcprobe.cost.constants import load_constants
from tcprobe.errors import WrongFormat
from tcprobe.flows.audit.fix import fixed
from tcprobe.flows.audit.flow import audit
from tcprobe.flows.audit.options import AuditOptions, read_baseline
from tcprobe.hardware import find_gpu
from tcprobe.report import RenderSpec, renderers
from tcprobe.report.audit.document import AuditDocument
from tcprobe.report.document import ReportSpec

MODEL = """import tensorflow as tf
m = tf.keras.Sequential([tf.keras.Input((4096,)), tf.keras.layers.Dense(4001), tf.keras.layers.Dense(4096)])
"""


def constants_of(path: Path) -> object:
    return load_constants(find_gpu("t4"), path.parent)


OPENERS: list[tuple[str, Callable[[Path], object]]] = [
    ("m.py", read_source),
    ("m.ipynb", read_source),
    ("t.py", lambda path: trace(TraceRequest(path))),
    ("pyproject.toml", lambda path: find_settings(path.with_name("m.py"))),
    ("baseline.json", read_baseline),
    ("raw.csv", read_raw),
    ("t4.json", constants_of),
]


@pytest.mark.parametrize(("name", "read"), OPENERS, ids=[name for name, _ in OPENERS])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(WrongFormat, match="is a FIFO"):
        read(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(WrongFormat, match="is a character device"):
        read(path)
    path.unlink()
    path.touch()
    os.truncate(path, 100 << 30)
    with pytest.raises(WrongFormat, match="is too large: 100 GiB"):
        read(path)


def options(*files: Path) -> AuditOptions:
    return AuditOptions(files=tuple(map(str, files)), mode="source")


def silent(_: str) -> None:
    pass


def test_an_imported_file_that_is_none_leaves_its_names_unknown(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sizes.py")
    (tmp_path / "m.py").write_text("from sizes import N, make\n" + MODEL.replace("4001", "N"))
    report = audit(options(tmp_path / "m.py"), silent).report
    assert not report.failed
    assert not report.findings()


def test_in_a_folder_each_costs_itself(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(MODEL)
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "loop.py").symlink_to("loop.py")
    outcome = audit(options(tmp_path), silent)
    failed = {Path(name).name: why.removeprefix("/dev/zero: ") for name, why in outcome.report.failed}
    assert failed == {
        "fifo.py": "is a FIFO (named pipe), not a regular file",
        "zero": "is a character device, not a regular file",
        "loop.py": "cannot be read: Too many levels of symbolic links",
    }
    assert len(outcome.report.findings()) == 1
    assert outcome.exit_code == 2


def test_fixes_stay_in_the_folder_that_was_named(tmp_path: Path) -> None:
    """A link to a file elsewhere is read, but changed only where the user names it."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "theirs.py").write_text(MODEL)
    (tmp_path / "mine" / "theirs.py").symlink_to("../theirs.py")
    (tmp_path / "mine" / "mine.py").write_text(MODEL)
    told: list[str] = []
    fixed(options(tmp_path / "mine"), told.append)
    assert "4001" in (tmp_path / "theirs.py").read_text()
    assert "4001" not in (tmp_path / "mine" / "mine.py").read_text()
    assert any("theirs.py: lies outside of what was named: left as it is" in line for line in told)
    fixed(options(tmp_path / "mine" / "theirs.py"), told.append)
    assert "4001" not in (tmp_path / "theirs.py").read_text()
    assert (tmp_path / "mine" / "theirs.py").is_symlink()


def test_fixes_do_not_follow_an_imported_link_out(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "sizes.py").write_text("N = 4001\n")
    (tmp_path / "mine" / "sizes.py").symlink_to("../sizes.py")
    (tmp_path / "mine" / "m.py").write_text("from sizes import N\n" + MODEL.replace("4001", "N"))
    fixed(options(tmp_path / "mine" / "m.py"), silent)
    assert (tmp_path / "sizes.py").read_text() == "N = 4001\n"


def test_names_that_are_not_utf_8_reach_every_format(tmp_path: Path) -> None:
    for name in (b"b\xff\xfe.py", b"new\nline.py", b"n" * 252 + b".py"):
        Path(tmp_path, os.fsdecode(name)).write_text(MODEL)
    document = AuditDocument(audit(options(tmp_path), silent).report, ReportSpec(cwd=str(tmp_path)))
    for renderer in renderers("audit"):
        out = io.StringIO()
        renderer.render(document, RenderSpec(), out)
        assert out.getvalue()
        if renderer.name == "sarif":
            assert "b%FF%FE.py" in json.dumps(json.loads(out.getvalue()))
