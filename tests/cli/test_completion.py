"""What the shell completes: names that no choice lists."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tcprobe.cli import options

SCRIPT = "import sys; sys.argv = ['tcprobe']; from tcprobe.__main__ import main; main()"
"""As the command that pip makes, by whose name the shell asks."""


@pytest.mark.parametrize(
    ("complete", "begun", "expected"),
    [
        (options.gpus, "h100-s", ["h100-sxm", "h100-sxm-64", "h100-sxm-96"]),
        (options.gpus, "H100-N", ["h100-nvl"]),
        (options.rules, "tc10", ["TC101", "TC102", "TC103", "TC104", "TC105", "TC106", "TC107", "TC108", "TC109"]),
        (options.rules, "TC3", []),
        (options.workloads, "train_g", ["train_gan"]),
        (options.words_of_explain, "E20", ["E200", "E201", "E202", "E203", "E204", "E205"]),
        (options.words_of_explain, "bad_", ["bad_sizes"]),
    ],
)
def test_words_are_completed(complete: object, begun: str, expected: list[str]) -> None:
    assert callable(complete)
    found = [word for word, meaning in complete(begun) if meaning]
    assert sorted(found) == expected


def test_the_shell_asks() -> None:
    environment = {"COMP_WORDS": "tcprobe audit-shapes --target-gpu h200-n", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"_TCPROBE_COMPLETE": "complete_bash", "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == ["h200-nvl"]
