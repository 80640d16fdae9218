"""Fixtures for all tests: a fixed, plain terminal, and none of the developer's settings."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from tests import warm

hypothesis.settings.register_profile("short", deadline=None)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="try twenty times as many made-up inputs")
    parser.addoption("--fuzz-minutes", type=float, help="change inputs by chance for so long (docs/reliability.md)")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("long" if config.getoption("--long") else "short")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; workloads would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup, likewise
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that run TensorFlow or wait first: they take longest, and a worker takes a file at a time."""
    slow = {item.path for item in items if item.get_closest_marker("tensorflow") or item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True, scope="session")
def _plain_terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setenv("NO_COLOR", "1")
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))  # no calibration of one's own
        for name in [n for n in os.environ if n.startswith("TCPROBE_")]:
            patch.delenv(name)
        yield
        warm.stop()
