"""Fixtures for all tests: a fixed, plain terminal, and none of the developer's settings."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest

from tests import warm
from tests.support import NO_NSYS, ROOT

hypothesis.settings.register_profile("short", deadline=None, max_examples=40)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="try thirty times as many made-up inputs")
    parser.addoption("--browser", action="store_true", help="try pages in Chromium (.ci/browser)")
    parser.addoption("--pictures", metavar="FOLDER", help="with --browser, also write pictures for the guides")
    parser.addoption("--fuzz-minutes", type=float, help="change inputs by chance for so long (docs/reliability.md)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fuzz-minutes") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FuzzingBeside(config.getoption("--fuzz-minutes")))
    hypothesis.settings.load_profile("long" if config.getoption("--long") else "short")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; workloads would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup, likewise
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files that run TensorFlow first: they take longest, and a worker takes a file at a time."""
    for name, why in (("long", "takes long"), ("browser", "needs Chromium, which .ci/browser gets")):
        for item in items:
            if item.get_closest_marker(name) and not config.getoption(f"--{name}"):
                item.add_marker(pytest.mark.skip(reason=f"{why}: run with --{name}"))
    if not shutil.which("nsys"):
        for item in items:
            if item.get_closest_marker("nsys"):
                item.add_marker(pytest.mark.skip(reason=NO_NSYS))
    slow = {item.path for item in items if item.get_closest_marker("tensorflow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Leave 15,000 tests and their modules out of the garbage collector's rounds: a tenth of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


class FuzzingBeside:
    """Changes inputs by chance while the tests run; a finding fails the run, with the command that repeats it.

    The seed stays the same, so that a run fails for what has changed; `python -m tests.fuzz` takes another each time.
    """

    def __init__(self, minutes: float) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.fuzz",
            "--minutes",
            str(minutes),
            "--engine",
            "mutate",
            "--seed",
            "gate",
        ]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._said = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._said, _ = self._process.communicate()
        if self._process.returncode:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("inputs changed by chance")
        terminalreporter.write_line(self._said)


@pytest.fixture
def one_nsys() -> Iterator[None]:
    """Let no other test record with nsys meanwhile.

    Where six nsys 2022.4 start at once, one in 24 ends without a report ("Connection to the Agent lost", a semaphore
    that is gone), and some of these with 0; 60 on a busy machine, one after the other, all wrote theirs. The agent of
    one that was killed ends after it, and is waited for.
    """
    with (Path(tempfile.gettempdir()) / f"tcprobe-tests-nsys-{os.getuid()}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        deadline = time.monotonic() + 10
        while _has_agent() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield


def _has_agent() -> bool:
    """Return whether an agent of Nsight Systems runs."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = process.read_bytes().split(b"\0")
            if b"--start-agent" in words and words[0].endswith(b"nsys"):
                return True
    return False


@pytest.fixture(autouse=True)
def _alone_with_nsys(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("nsys"):
        request.getfixturevalue("one_nsys")


@pytest.fixture(autouse=True, scope="session")
def _plain_terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setenv("NO_COLOR", "1")
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))  # no calibration of one's own
        for name in [n for n in os.environ if n.startswith("TCPROBE_")]:
            patch.delenv(name)
        patch.setenv("TCPROBE_PROGRESS_SECONDS", "86400")  # how long things take here is chance
        yield
        warm.stop()
