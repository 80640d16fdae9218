"""The Python API on recorded runs: what its names give, and what they say where there is nothing to give."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import tcprobe
from tcprobe.api.arguments import names_arguments
from tcprobe.schema.tables import TABLES
from tests.fixtures.gpu_run.make import RUN, load
from tests.support import ROOT

NO_GPU = ROOT / "tests" / "fixtures" / "xplane" / "cpu_graph.xplane.pb"
DOCS = ROOT / "docs" / "python-api.md"


@pytest.fixture(scope="module")
def profile() -> tcprobe.Profile:
    return tcprobe.read(RUN)


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, tcprobe; print(sorted({'numpy', 'pandas', 'tensorflow', 'tcprobe.api'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_is_documented_and_there() -> None:
    told = DOCS.read_text(encoding="utf-8")
    for name in tcprobe.__all__:
        assert getattr(tcprobe, name) is not None
        assert name == "__version__" or f"`tcprobe.{name}" in told, name


def test_the_stub_names_what_the_module_has() -> None:
    stub = ast.parse((ROOT / "tcprobe" / "__init__.pyi").read_text(encoding="utf-8"))
    named = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    named |= {node.name for node in stub.body if isinstance(node, ast.ClassDef)}
    assert set(tcprobe.__all__) - {"__version__"} <= named


def test_tables_are_frames(profile: tcprobe.Profile) -> None:
    kernels = profile.kernels
    assert isinstance(kernels, pd.DataFrame)
    assert str(kernels.dtypes["sum_ns"]) == "Int64"
    assert kernels.sum_ns.sum() == profile.figure("kernel_time_ns")["value"]
    assert profile.causes.split_ns.sum() == 14_263_000  # the window of the one GPU
    assert set(TABLES) <= set(dir(profile))


def test_a_table_that_is_not_there_says_why(profile: tcprobe.Profile) -> None:
    with pytest.raises(tcprobe.NoTable, match=r"has no range_kernels: "):
        _ = profile.range_kernels
    assert not hasattr(profile, "range_kernels")
    assert "range_kernels" in profile.absent
    with pytest.raises(AttributeError, match="did you mean 'kernels'"):
        _ = profile.kernles
    with pytest.raises(KeyError, match="did you mean 'step_time_ns'"):
        profile.figure("step_time")


def test_it_is_the_report_of_the_command(profile: tcprobe.Profile) -> None:
    command = [sys.executable, "-m", "tcprobe", "report", str(RUN)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert profile.to_text() == done.stdout
    assert json.loads(profile.to_json())["schema"] == 1
    assert profile.to_markdown().startswith("# Tensor Core report")
    assert profile.what_to_do[0] in done.stdout


def test_saved_tables_are_those_of_the_command(profile: tcprobe.Profile, tmp_path: Path) -> None:
    files = profile.save(tmp_path / "tables")
    assert {"kernels.csv", "causes.csv"} <= {file.name for file in files}
    with pytest.raises(tcprobe.TcprobeError, match="exists already"):
        profile.save(tmp_path / "tables")


def test_a_notebook_shows_it_whole_and_escaped(tmp_path: Path) -> None:
    run = load()
    run.record["host"] = "<script>alert(1)</script>"
    shown = tcprobe.read(run.write(tmp_path / "run"))._repr_html_()
    assert shown.startswith('<div class="tcprobe">')
    assert "<script" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert "Where a step goes" in shown
    assert len(shown) < 300_000
    assert shown.count("<table") == shown.count("</table>")


def test_runs_compare_by_path_and_by_profile(profile: tcprobe.Profile) -> None:
    found = tcprobe.compare(profile, RUN)
    assert found.names == (f"{RUN} (1)", f"{RUN} (2)")
    figures = found.figures
    assert list(figures[figures.metric == "step_time_ns"].value) == [4_124_000, 4_124_000]
    assert found.answer.startswith("B takes 4.12 ms a step and A 4.12 ms; cannot tell whether that is noise: of A the")
    assert "Figures" in found._repr_html_()
    assert found.to_markdown().startswith("# Comparison of runs")
    with pytest.raises(tcprobe.TcprobeError, match="two runs or more"):
        tcprobe.compare(profile)


def test_frames_of_a_comparison_have_the_dtypes_of_their_columns(profile: tcprobe.Profile) -> None:
    """Whatever they hold: nothing at all, missing values alone, or floats that are whole numbers."""
    bare = tcprobe.read(NO_GPU)
    names = ("figures", "layers", "ops", "kernels", "renamed", "losses", "settings")
    full, empty = tcprobe.compare(profile, profile), tcprobe.compare(bare, bare)
    assert len(full.kernels) and not len(empty.kernels)
    for name in names:
        assert dict(getattr(full, name).dtypes) == dict(getattr(empty, name).dtypes), name
    assert str(full.figures.dtypes["value"]) == "Float64" and str(full.settings.dtypes["value"]) == "string"


def test_tables_are_attributes_to_a_type_checker() -> None:
    assert set(TABLES) <= set(tcprobe.Profile.__annotations__)


@pytest.mark.parametrize(
    ("call", "said", "hint"),
    [
        (lambda: tcprobe.read(RUN, step_range="("), "step_range='(': no regular", r"as in step_range='^step (\d+)'"),
        (lambda: tcprobe.read(RUN, iter_start=500), "iter_start=500 is outside", "give a number from 1 to 5"),
        (lambda: tcprobe.audit_shapes("m.py:make", mode="source"), "only in traced", "leave mode='source' out"),
        (lambda: tcprobe.audit_shapes("m.py", batch_size=0), "batch_size: at least 1", None),
        (lambda: tcprobe.audit_shapes("m.py", mode="fast"), "mode='fast'", "one of auto, traced, source"),
        (lambda: tcprobe.audit_shapes("m.py", dtype="fp16"), "dtype='fp16'", "one of float32, tf32, float16"),
        (lambda: tcprobe.compare(RUN), "two runs or more", "name another run: a run folder or a profile"),
    ],
)
def test_hints_name_arguments(
    call: Callable[[], object], said: str, hint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text("import keras\n")
    with pytest.raises(tcprobe.TcprobeError) as raised:
        call()
    assert said in str(raised.value)
    assert raised.value.hint == hint or (hint is not None and str(raised.value.hint).startswith(hint))
    assert "--" not in f"{raised.value}{raised.value.hint}"


def test_a_hint_for_the_command_line_says_so() -> None:
    @names_arguments
    def verb(timeout_s: float) -> None:
        raise tcprobe.TcprobeError("--timeout is 3", "allow more (--timeout), or run it (--run)")

    with pytest.raises(tcprobe.TcprobeError) as raised:
        verb(3)
    assert (str(raised.value), raised.value.hint) == (
        "timeout_s is 3", "on the command line: allow more (--timeout), or run it (--run)"
    )  # fmt: skip


def test_errors_are_those_of_tcprobe(tmp_path: Path) -> None:
    with pytest.raises(tcprobe.TcprobeError) as raised:
        tcprobe.read(tmp_path / "nowhere")
    assert "nowhere" in str(raised.value)


def test_an_audit_of_source() -> None:
    findings = tcprobe.audit_shapes(ROOT / "workloads" / "train_gan.py", mode="source", dtype="float16")
    one = next(found for found in findings if found.dimension == "filters" and found.size == 1)
    assert one.code == "TC101" or one.code.startswith("TC1")
    assert one.file is not None and one.file.endswith("train_gan.py")
    assert str(one).startswith(f"{one.file}:{one.line}: {one.code} ")
    with pytest.raises(tcprobe.TcprobeError, match="neither a path nor a Keras model"):
        tcprobe.audit_shapes(3)
