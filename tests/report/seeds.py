"""Render the documents of the report tests in processes with different hash seeds.

Within one process sets and dictionaries keep their order, so that two renderings there are the same whatever they rest
on. `python -m tests.report.seeds` prints the SHA-256 of every text as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.support import ROOT


@cache
def texts(seed: int) -> dict[str, str]:
    """Return the digests of all texts, by what they are, of a process with this seed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.report.seeds"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def differing(start: str) -> list[str]:
    """Return which of the texts whose name begins so differ between two seeds; fails where there is none."""
    one, other = ({name: text for name, text in texts(seed).items() if name.startswith(start)} for seed in (1, 2))
    assert one and one.keys() == other.keys()
    return [name for name in one if one[name] != other[name]]


def _runs() -> dict[str, str]:
    from tcprobe.report import FORMATS
    from tests.report.test_golden import PROFILES, rendered

    formats = [name for name in FORMATS["run"] if name != "perfetto"]  # these profiles have no times
    return {f"run {format_} {name}": rendered(format_, name) for format_ in formats for name in PROFILES}


def _audits() -> dict[str, str]:
    from tcprobe.report import FORMATS
    from tests.report.audit.builders import REPORTS
    from tests.report.audit.test_golden import rendered

    return {f"audit {format_} {name}": rendered(format_, name) for format_ in FORMATS["audit"] for name in REPORTS}


def _files() -> dict[str, str]:
    from tcprobe.flows.write import destination, write_document
    from tcprobe.report import RenderSpec
    from tests.report.builders import gpu_profile, run

    with tempfile.TemporaryDirectory() as folder:
        write_document(run(gpu_profile()), RenderSpec(), destination("run", "csv", str(Path(folder, "tables"))))
        return {f"file {p.name}": p.read_text(encoding="utf-8") for p in Path(folder, "tables").iterdir()}


if __name__ == "__main__":
    rendered = {**_runs(), **_audits(), **_files()}
    print(json.dumps({name: hashlib.sha256(text.encode()).hexdigest() for name, text in rendered.items()}))
