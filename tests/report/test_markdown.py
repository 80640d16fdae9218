"""The report as Markdown."""

from __future__ import annotations

from tests.report.builders import gpu_profile, rendered, run


def text(by: tuple[str, ...] = ()) -> str:
    return rendered("markdown", run(gpu_profile(), by=by))


def test_the_answer_is_the_first_thing_below_the_title() -> None:
    lines = [line for line in text().splitlines() if line]
    assert lines[1] == "```text" and any(line.startswith("Tensor Cores: ") for line in lines[2:7])


def test_tables_fold_unless_asked_for() -> None:
    assert text().count("<details>") == text().count("</details>") == 10
    assert "<details>" not in text(by=("kernel",))


def test_every_row_of_a_table_has_as_many_cells() -> None:
    rows = [line.replace("\\|", "") for line in text().splitlines() if line.startswith("|")]
    blocks: dict[int, int] = {}
    for row in rows:
        blocks[row.count("|")] = blocks.get(row.count("|"), 0) + 1
    assert all(count >= 3 for count in blocks.values())


def test_names_cannot_be_markup() -> None:
    assert "&lt;\\_\\_half" in text()
    assert "<__half" not in text()
