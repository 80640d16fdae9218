"""A tool that listens to NVTX, for all tests of the probe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import nvtx


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvtx.build(tmp_path_factory.mktemp("nvtx"))


@pytest.fixture
def tool(library: Path, tmp_path: Path) -> nvtx.Tool:
    """A tool to attach to one run."""
    return nvtx.Tool(library, tmp_path / "nvtx.log")
