"""`tcprobe find-key-node` as a user runs it: exit code, standard output, standard error."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests import warm
from tests.support import ROOT

DETAIL = ROOT / "tests/fixtures/dlprof/tf2_1.8/dlprof_detailed.csv"
ONE_STEP = ROOT / "tests/fixtures/xplane/cpu_graph.xplane.pb"


def tcprobe(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return warm.run_tcprobe(*args)


def test_a_profile() -> None:
    done = tcprobe("find-key-node", "--top", "2", DETAIL)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"profile   {DETAIL}"
    assert lines[-1] == "Next: tcprobe profile --profiler dlprof --key-node ASSIGNADDVARIABLEOP_1 WORKLOAD"


def test_nothing_regular_is_exit_code_2() -> None:
    done = tcprobe("find-key-node", "--format", "json", ONE_STEP)
    said, hint = done.stderr.splitlines()
    assert done.returncode == 2
    assert said.startswith(f"tcprobe: error: {ONE_STEP}: no key node: the profile holds 2 steps")
    assert hint.startswith("hint: record a run of 20 steps or more")
    assert "holds 2 steps" in json.loads(done.stdout)["error"]["message"]


def test_the_file_of_a_result(tmp_path: Path) -> None:
    out = tmp_path / "key.md"
    done = tcprobe("find-key-node", "-o", out, DETAIL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"Wrote {out}\n")
    assert out.read_text().startswith("# Key node\n")


def test_an_unknown_option_is_refused_with_the_verb_that_lists_them() -> None:
    done = tcprobe("find-key-node", "--tops", "2", DETAIL)
    assert done.returncode == 2
    assert "did you mean --top?" in done.stderr
