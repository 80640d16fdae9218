"""What a user says of kernels whose names do not tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.analysis.kernels.details import with_details
from tcprobe.analysis.kernels.verdict import with_words
from tcprobe.errors import UsageError
from tcprobe.flows.report import make_report
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import NamedKernel
from tcprobe.schema.tables import KERNELS
from tests.support import shared

JACOBI = "void jacobi_kernel<32, 32>(float*, float const*, float*, int, int, int, bool)"
SAYS = """
[[tool.tcprobe.kernels]]
pattern = "jacobi_*"
class = "no"
kind = "elementwise"
why = "a stencil in float32"
"""


def table(*rows: tuple[str, str]) -> Table:
    made = [{"kernel": name, "uses_tc": uses, "evidence": "x"} for name, uses in rows]
    return with_details(Table.from_rows(KERNELS, made))


def test_a_word_counts_where_the_name_does_not_tell() -> None:
    word = NamedKernel("*jacobi*", "no", "elementwise", "a stencil")
    found = with_words(table((JACOBI, "unknown"), ("volta_sgemm_128x64_nn", "no"), ("some_kernel", "unknown")), [word])
    assert found.values("uses_tc") == ["no", "no", "unknown"]
    assert found.values("kind") == ["elementwise", "matmul", "unknown"]
    assert found.values("basis") == ["user", None, None]
    assert found.values("evidence")[0] == "a stencil (*jacobi* in pyproject.toml)"


def test_a_name_that_tells_outweighs_a_word_and_the_first_word_counts() -> None:
    words = [NamedKernel("volta_*", "yes", "attention", "wrong"), NamedKernel("my_*", "unknown", "sort", "first")]
    words.append(NamedKernel("my_*", "yes", "copy", "second"))
    found = with_words(table(("volta_sgemm_128x64_nn", "no"), ("my_thing", "unknown")), words)
    assert (found.values("uses_tc"), found.values("kind")) == (["no", "unknown"], ["matmul", "sort"])


def test_a_report_takes_the_word_of_pyproject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = shared("samples/nsys/v100_mpi_rank1.sqlite").resolve()
    (tmp_path / "pyproject.toml").write_text(SAYS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    profile = make_report(sample)
    row = next(row for row in profile.require("kernels").rows() if row["kernel"] == JACOBI)
    assert (row["uses_tc"], row["basis"], row["kind"], row["cause"]) == ("no", "user", "elementwise", "type")
    share = profile.figure("tc_kernel_time_pct")
    assert share is not None
    assert (share["value"], share["basis"]) == (0.0, "user")
    assert {row["kind"] for row in profile.require("kinds").rows()} == {"elementwise", "copy"}


@pytest.mark.parametrize(
    "text",
    ['[tool.tcprobe]\nkernels = 3', SAYS.replace("why", "because"), SAYS.replace('"no"', '"perhaps"'),
     SAYS.replace("elementwise", "stencil")],
)  # fmt: skip
def test_a_word_that_says_nothing_is_an_error(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"tool\.tcprobe\.kernels"):
        make_report(tmp_path / "absent.sqlite")
