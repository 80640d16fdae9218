"""A tool that listens to NVTX: `tool.c`, built where a test first needs it, and what it heard."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "tool.c"


def build(folder: Path) -> Path:
    """Return the tool's library, made in `folder`; skip the test where there is no compiler of C."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler of C (cc) is here, to build the tool that listens to NVTX")
    library = folder / "tool.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", library], check=True)
    return library


@dataclass(frozen=True)
class Tool:
    """The tool in one run.

    Attributes:
        library: built from `tool.c`.
        log: what it writes.
    """

    library: Path
    log: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables that attach it to a process."""
        return {"NVTX_INJECTION64_PATH": str(self.library), "NVTX_LOG": str(self.log), **more}

    def threads(self) -> dict[str, list[str | None]]:
        """Return by PROCESS/THREAD what each began, by name, and ended, as None, in domain ``tcprobe``."""
        found: dict[str, list[str | None]] = {}
        for line in self.log.read_text().splitlines():
            what, thread, domain, *event = line.split("\t")
            if domain == "tcprobe":
                assert event[:1] == (["registered"] if what == "push" else []), line
                found.setdefault(thread, []).append(event[1] if what == "push" else None)
        return found

    def ranges(self) -> list[str]:
        """Return the ranges of the one thread that has any, as paths (``step 3/critic``), by their starts."""
        (events,) = self.threads().values()
        return paths(events)


def paths(events: list[str | None]) -> list[str]:
    """Return the ranges of a thread as paths; none may end that has not begun, or go on to the end."""
    opened: list[str] = []
    found = []
    for name in events:
        if name is None:
            opened.pop()
        else:
            opened.append(name)
            found.append("/".join(opened))
    assert not opened
    return found
