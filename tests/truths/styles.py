"""The styles: where they are, how one is run, and how a run is judged."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.truths.compare import Verdict, compare
from tests.truths.found import Said, read_found
from tests.truths.truth import read_truth

STYLES = Path(__file__).resolve().parent.parent / "workload_styles"
SCRIPTS = sorted(STYLES.glob("*.py"))
QUIET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR"}
SHAPED = re.compile(r"shapes((?: \d+)+)\nsteps")
COUNTED = re.compile(r"steps((?: \d+)+)\n$")


def counted(output: str) -> tuple[int, ...]:
    """Return the steps of each phase, which a style's last line says; empty where it printed none."""
    match = COUNTED.search(output)
    return tuple(int(n) for n in match[1].split()) if match else ()


def shaped(output: str) -> tuple[int, ...]:
    """Return the number of the shapes of each step, of a style whose steps differ; else nothing."""
    match = SHAPED.search(output)
    return tuple(int(n) for n in match[1].split()) if match else ()


def judge(script: Path, folder: Path, output: str, notes: Iterable[Said] = ()) -> list[Verdict]:
    """Hold a run folder, with its tables, against the truth of a style.

    Args:
        script: the style.
        folder: the run folder.
        output: what the workload printed.
        notes: what the report says, beyond run.json.
    """
    found = read_found(folder, notes)
    truth = read_truth(script, found.tensorflow, found.keras)
    return compare(script, truth, found, counted(output), shaped(output))
