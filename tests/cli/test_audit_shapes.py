"""`tcprobe audit-shapes` in source mode, as a user runs it: exit code, standard output, standard error."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.support import ROOT

HEAD = "import keras\nfrom keras import layers\n\n"
BAD = HEAD + (
    "model = keras.Sequential([\n"
    "    keras.Input((64, 64, 64)),\n"
    "    layers.Conv2D(255, 3, padding='same'),\n"
    "    layers.Conv2D(256, 3, padding='same'),\n"
    "])\n"
)
CLEAN = BAD.replace("255", "256")
FINDING = re.compile(r"^(\S+):(\d+):(\d+): (TC\d{3})( \[\*\])? .+ \((error|warning|note)[,)]", re.MULTILINE)
HALF = ("--dtype", "float16", "--batch-size", "256", "--no-xla")


def audit(*args: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [warm.tcprobe(), "-m", "tcprobe", "audit-shapes", *map(str, args)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=cwd, timeout=120)


def source(*args: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return audit("--mode", "source", *args, cwd=cwd, **environment)


def refused(*args: str | Path, cwd: Path) -> str:
    """Run what must fail: exit code 2, nothing on standard output, an error and at most a hint on the other."""
    done = audit(*args, cwd=cwd)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert lines[0].startswith("tcprobe: error: ")
    assert [line.startswith("hint: ") for line in lines[1:]] in ([], [True])
    return done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a badly sized and a well sized model."""
    (tmp_path / "bad.py").write_text(BAD, encoding="utf-8")
    (tmp_path / "clean.py").write_text(CLEAN, encoding="utf-8")
    return tmp_path


def test_a_clean_model(project: Path) -> None:
    done = source("clean.py", *HALF, cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert "warning" not in done.stdout.replace("0 warnings", "")
    assert "Predicted for A100 SXM4 40GB, float16, cuBLAS 12, without XLA, batch 256" in done.stdout
    assert "shapes read from the source" in done.stdout


def test_a_badly_sized_model(project: Path) -> None:
    done = source("bad.py", *HALF, cwd=project)
    assert (done.returncode, done.stderr) == (1, "")
    first = FINDING.search(done.stdout)
    assert first is not None
    assert first.group(1, 2, 4) == ("bad.py", "6", "TC101")
    assert "; 256 saves " in done.stdout
    assert "all suggestions together save" in done.stdout
    assert re.search(r"^Found 1 (error|warning)", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1].startswith("See the fixes: tcprobe audit-shapes --diff --mode source bad.py ")


LENT = "It rests on measurements of an RTX PRO 6000 Blackwell Server, an A100 SXM4 80GB and a V100 SXM2: wide range."
BORROWED = "gpu: rtxpro6000bw-server; stack: a100-sxm-80; convolution: v100-sxm2; alignment: a100-sxm-80"


def test_borrowed_constants_are_said_in_every_format(project: Path) -> None:
    given = ("bad.py", *HALF, "--target-gpu", "rtx5090")
    for form in ("text", "markdown"):
        assert LENT in source(*given, "--format", form, cwd=project).stdout
    body = json.loads(source(*given, "--format", "json", cwd=project).stdout)
    (model,) = body["audited"]
    (whole,), (finding,) = model["constants"], [f for f in model["findings"] if f["saving_ns"]]
    for said in (whole, finding["constants"]):
        assert (said["gpu"], said["measured_on"]) == ("rtx5090", "rtxpro6000bw-server")
        assert said["stack"] == {"kind": "serving", "name": "vLLM"}
        assert (said["framework_of"], said["unaligned_of"]) == ("a100-sxm-80", "a100-sxm-80")
        assert said["borrowed"] == ["gpu", "stack", "convolution", "alignment"]
    rows = list(csv.DictReader(source(*given, "--format", "csv", cwd=project).stdout.splitlines()))
    assert {(r["constants_gpu"], r["constants_stack"], r["constants_borrowed"]) for r in rows if r["saving_ns"]} == {
        ("rtxpro6000bw-server", "vLLM", BORROWED)
    }
    sarif = json.loads(source(*given, "--format", "sarif", cwd=project).stdout)["runs"][0]
    assert sarif["results"][0]["properties"]["constants_borrowed"] == BORROWED
    assert LENT in json.dumps(sarif)


def test_the_help_stands_in_groups_and_ends_with_examples(project: Path) -> None:
    done = audit("--help", cwd=project, COLUMNS="80")
    titles = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert titles[1:] == [
        "Arguments:",
        "What to audit:",
        "What to predict for:",
        "What counts:",
        "What to do with it:",
        "Help:",
        "Examples:",
    ]
    assert all(
        f"  {name}" in done.stdout for name in ("--run ", "--target-gpu NAME", "--fail-on", "--diff", "-h, --help")
    )
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_an_unknown_batch_is_said(project: Path) -> None:
    done = source("bad.py", "--dtype", "float16", cwd=project)
    assert "per 1,024 samples (batch unknown; --batch-size sets it)" in done.stdout


def test_a_pipe_gets_no_colours_and_whole_lines(project: Path) -> None:
    plain = source("bad.py", *HALF, cwd=project)
    assert "\x1b" not in plain.stdout
    forced = source("bad.py", *HALF, cwd=project, FORCE_COLOR="1", NO_COLOR="")
    assert "\x1b[" in forced.stdout
    assert re.sub(r"\x1b\[\d*m", "", forced.stdout) == plain.stdout


def test_what_fails_can_be_chosen(project: Path) -> None:
    codes = {f: source("bad.py", *HALF, "--fail-on", f, cwd=project).returncode for f in ("note", "warning", "never")}
    assert codes == {"note": 1, "warning": 1, "never": 0}
    over = [
        source("bad.py", *HALF, "--fail-on", "never", "--fail-over", p, cwd=project).returncode for p in ("0%", "99")
    ]
    assert over == [1, 0]


def test_rules_can_be_chosen(project: Path) -> None:
    assert "TC101" not in source("bad.py", *HALF, "--ignore", "tc1", cwd=project).stdout
    assert "TC101" in source("bad.py", *HALF, "--select", "TC101,TC2", cwd=project).stdout
    assert "TC101" not in source("bad.py", *HALF, "--select", "TC2", cwd=project).stdout


def test_nothing_of_the_file_is_executed(project: Path) -> None:
    sentinel = project / "sentinel"
    sentinel.touch()
    (project / "evil.py").write_text(f"import os\nos.remove({str(sentinel)!r})\n" + BAD, encoding="utf-8")
    assert source("evil.py", *HALF, cwd=project).returncode == 1
    assert sentinel.exists()


def test_a_folder_is_read_and_not_run(project: Path) -> None:
    done = audit(".", *HALF, cwd=project)
    assert done.returncode == 1
    assert done.stderr == "tcprobe: 2 files: shapes are read from the source; --mode traced runs them\n"
    assert "bad.py:6:" in done.stdout
    assert "clean.py:6:" not in done.stdout


def test_one_broken_file_of_several(project: Path) -> None:
    (project / "broken.py").write_text("def f(:\n", encoding="utf-8")
    done = source("broken.py", "bad.py", *HALF, cwd=project)
    assert done.returncode == 2
    assert "broken.py: not audited: " in done.stdout
    assert "bad.py:6:" in done.stdout


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("syntax.py", b"def f(:\n"),
        ("binary.py", b"\0\1\2\xff"),
        ("coding.py", b"# \xff\xfe\nx = 1\n"),
        ("missing.py", None),
    ],
)
def test_a_file_that_cannot_be_read(project: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (project / name).write_bytes(content)
    assert name in refused("--mode", "source", name, cwd=project)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "no file to audit"),
        (("bad.py", "--target-gpu", "a100-sx"), "a100-sxm-40"),
        (("bad.py", "--select", "TC1O1"), "TC101"),
        (("bad.py", "--fail-over", "lots"), "--fail-over lots"),
        (("bad.py", "--arg", "units"), "NAME=VALUE"),
        (("bad.py", "-o", "a.xyz"), "tells no format"),
        (("bad.py", "-o", "clean.py", "--format", "json"), "exists already"),
        (("bad.py:make", "--mode", "source"), "traced mode"),
        (("bad.py", "--diff", "--fix"), "--diff stands alone"),
        (("--run", "bad.py", "clean.py"), "--run takes one script"),
        (("--run", "--mode", "source", "bad.py", "clean.py"), "--run takes one script"),
        (("bad.py", "--python", "/nonexistent/python"), "does not start"),
    ],
)
def test_what_cannot_be_asked(project: Path, args: tuple[str, ...], said: str) -> None:
    assert said in refused(*args, cwd=project)


def test_an_error_is_in_the_json_too(project: Path) -> None:
    done = source("none.py", "--format", "json", cwd=project)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "E201"


def test_settings_count_less_than_the_environment_and_that_less_than_the_command_line(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.tcprobe]\ntarget-gpu = "t4"\ndtype = "float16"\nbatch-size = 256\nxla = false\nmode = "source"\n',
        encoding="utf-8",
    )

    def gpu(*args: str, **environment: str) -> str:
        done = audit("bad.py", "--format", "json", "--fail-on", "never", *args, cwd=project, **environment)
        (audited,) = json.loads(done.stdout)["audited"]
        assert (audited["dtype"], audited["batch"], audited["mode"]) == ("float16", 256, "source")
        return str(audited["gpu"])

    assert gpu() == "t4"
    assert gpu(TCPROBE_TARGET_GPU="l4") == "l4"
    assert gpu("--target-gpu", "v100-sxm2", TCPROBE_TARGET_GPU="l4") == "v100-sxm2"


def test_a_wrong_setting_names_file_and_key(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.tcprobe]\nbatchsize = 4\n", encoding="utf-8")
    said = refused("bad.py", "--mode", "source", cwd=project)
    assert f"{project.resolve()}/pyproject.toml: tool.tcprobe has no key 'batchsize'" in said
    assert "did you mean batch-size?" in said


def test_ignores_by_file(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.tcprobe]\nper-file-ignores = { "b*.py" = ["TC1"] }\n', encoding="utf-8"
    )
    assert source("bad.py", *HALF, cwd=project).returncode == 0


def test_a_comment_silences_and_an_idle_one_is_told(project: Path) -> None:
    silent = BAD.replace("255, 3, padding='same'),", "255, 3, padding='same'),  # tcprobe: ignore[TC101]")
    (project / "bad.py").write_text(silent, encoding="utf-8")
    done = source("bad.py", *HALF, cwd=project)
    assert (done.returncode, "(1 suppressed)" in done.stdout) == (0, True)
    (project / "clean.py").write_text(CLEAN.replace("3, padding='same'),", "3),  # noqa: TC101", 1), encoding="utf-8")
    done = source("clean.py", *HALF, cwd=project)
    assert done.returncode == 0
    assert "clean.py:6:29: unused suppression: # noqa: TC101 silences nothing" in done.stdout


def test_a_file_is_written_once(project: Path) -> None:
    done = source("bad.py", *HALF, "-o", "a.sarif", cwd=project)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Wrote a.sarif\n")
    before = (project / "a.sarif").read_bytes()
    done = source("bad.py", "-o", "a.sarif", cwd=project)
    assert done.returncode == 2
    assert (project / "a.sarif").read_bytes() == before
    assert source("bad.py", *HALF, "-o", "a.sarif", "--force", cwd=project).returncode == 1


@pytest.mark.parametrize("output", [(), ("-o", "a.sarif"), ("-o", "a.json"), ("-o", "a.csv"), ("-o", "a.md")])
def test_nothing_heavy_is_loaded(project: Path, output: tuple[str, ...]) -> None:
    code = (
        f"import sys; sys.argv = ['tcprobe', 'audit-shapes', '--mode', 'source', 'bad.py', *{output!r}]\n"
        "from tcprobe.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pandas', 'tensorflow', 'keras', 'libcst', 'rich', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=project, timeout=60)
    assert done.stderr.splitlines()[-1] == "[]"
    assert "TC101" in ((project / output[1]).read_text(encoding="utf-8") if output else done.stdout)
