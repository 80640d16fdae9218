"""Whatever a test leaves running is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.running import Tcprobe


@pytest.fixture(autouse=True)
def _nothing_runs_on() -> Iterator[None]:
    yield
    while Tcprobe.started:
        Tcprobe.started.pop().kill()
