"""Hooks after imports."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.script.script import AfterImport


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "probe_import_sample").mkdir()
    (tmp_path / "probe_import_sample/__init__.py").write_text("from probe_import_sample.inner import value\n")
    (tmp_path / "probe_import_sample/inner.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "probe_import_sample"
    for name in [n for n in sys.modules if n.startswith("probe_import_sample")]:
        del sys.modules[name]


@pytest.fixture
def before() -> Iterator[None]:
    kept = list(sys.meta_path)
    yield
    sys.meta_path[:] = kept


@pytest.mark.usefixtures("before")
def test_hook_runs_once_after_the_body(package: str) -> None:
    seen = []
    watch = AfterImport({package: lambda module: seen.append(module.value)}, Gaps())
    watch.install()
    assert seen == []
    module = importlib.import_module(package)
    importlib.import_module(package)
    assert seen == [3]
    assert watch not in sys.meta_path
    assert "exec_module" not in vars(module.__loader__)


@pytest.mark.usefixtures("before")
def test_imported_already(package: str) -> None:
    importlib.import_module(package)
    seen = []
    AfterImport({package: lambda module: seen.append(module.__name__)}, Gaps()).install()
    assert seen == [package]


@pytest.mark.usefixtures("before")
def test_failing_hook_is_a_gap_and_the_import_succeeds(package: str) -> None:
    gaps = Gaps()
    AfterImport({package: lambda module: module.nothing}, gaps).install()
    assert importlib.import_module(package).value == 3
    assert gaps.gaps[0]["hook"] == f"hooks of {package}"
    assert "nothing" in gaps.gaps[0]["reason"]


@pytest.mark.usefixtures("before")
def test_missing_module_is_missing() -> None:
    AfterImport({"probe_no_such_module": lambda module: None}, Gaps()).install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("probe_no_such_module")
