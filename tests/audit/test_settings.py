"""`[tool.tcprobe]`: what it may say, and one clear error for what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.audit.settings import Settings, codes, find_settings, percentage
from tcprobe.errors import TcprobeError, UsageError, WrongFormat
from tcprobe.schema.model import InputShape


def written(folder: Path, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text("\n".join(["[tool.tcprobe]", *lines]) + "\n", encoding="utf-8")
    return folder / "model.py"


def test_every_key(tmp_path: Path) -> None:
    model = written(
        tmp_path,
        'target-gpu = "h100-sxm"',
        'dtype = "float16"',
        'library = "cublas11"',
        "xla = true",
        "batch-size = 64",
        'input-shape = ["224,224,3", "noise=100"]',
        'mode = "source"',
        'select = ["TC1"]',
        'ignore = "tc102, TC108"',
        'fail-on = "error"',
        'fail-over = "5%"',
        'per-file-ignores = { "tests/*" = ["TC101"] }',
    )
    shapes = (InputShape(None, (224, 224, 3)), InputShape("noise", (100,)))
    assert find_settings(model) == Settings(
        tmp_path / "pyproject.toml", "h100-sxm", "float16", "cublas11", True, 64, shapes, "source", "error", 5.0,
        ("TC1",), ("TC102", "TC108"), {"tests/*": ("TC101",)},
    )  # fmt: skip


def test_the_nearest_table_counts_and_a_file_without_one_does_not(tmp_path: Path) -> None:
    written(tmp_path, "batch-size = 1")
    inner = written(tmp_path / "a", "batch-size = 2")
    assert find_settings(inner).batch_size == 2
    (tmp_path / "a/pyproject.toml").write_text("[tool.other]\nx = 1\n", encoding="utf-8")
    assert find_settings(inner).batch_size == 1


def test_nothing_is_said_where_there_is_no_file(tmp_path: Path) -> None:
    assert find_settings(tmp_path / "model.py").target_gpu is None


@pytest.mark.parametrize(
    ("line", "named", "hint"),
    [
        ('target_gpu = "t4"', "target_gpu", "target-gpu"),
        ('traget-gpu = "t4"', "traget-gpu", "target-gpu"),
        ("target-gpu = 4", "target-gpu", None),
        ('target-gpu = "h100-sxn"', "pyproject.toml: tool.tcprobe.target-gpu = 'h100-sxn'", "did you mean h100-sxm"),
        ('dtype = "flaot16"', "dtype", "float16"),
        ('xla = "yes"', "xla", None),
        ("batch-size = 0", "batch-size", None),
        ("batch-size = true", "batch-size", None),
        ("batch-size = 2.5", "batch-size", None),
        ("fail-over = 101", "fail-over", None),
        ("fail-over = true", "fail-over", None),
        ('fail-on = "warn"', "fail-on", "warning"),
        ("select = [1]", "select", None),
        ("select = 1", "select", None),
        ('per-file-ignores = ["TC1"]', "per-file-ignores", None),
        ('per-file-ignores = { "a" = 3 }', "per-file-ignores", None),
        ('exclude = "tests"', "exclude", None),
        ("exclude = [1]", "exclude", None),
        ('exclude = [""]', "exclude", None),
        ("baseline = true", "baseline", None),
        ('excluded = ["a"]', "excluded", "did you mean exclude"),
        ('zzz = "q"', "zzz", "there are target-gpu"),
    ],
)
def test_what_cannot_be_is_one_error_with_file_and_key(tmp_path: Path, line: str, named: str, hint: str | None) -> None:
    model = written(tmp_path, line)
    with pytest.raises(UsageError) as caught:
        find_settings(model)
    assert str(tmp_path / "pyproject.toml") in caught.value.message
    assert named in caught.value.message
    if hint:
        assert hint in (caught.value.hint or "")


def test_patterns_stay_as_written_and_the_baseline_lies_beside_the_settings(tmp_path: Path) -> None:
    settings = find_settings(written(tmp_path, 'exclude = ["tests/styles", "*.gen.py"]\nbaseline = "ci/known.json"'))
    assert settings.exclude == ("tests/styles", "*.gen.py")
    assert settings.baseline == tmp_path / "ci/known.json"


def test_broken_toml_and_a_table_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tcprobe\n", encoding="utf-8")
    with pytest.raises(WrongFormat, match="is no TOML"):
        find_settings(tmp_path / "m.py")
    (tmp_path / "pyproject.toml").write_bytes(b"x = '\xff'\n")
    with pytest.raises(TcprobeError):
        find_settings(tmp_path / "m.py")
    (tmp_path / "pyproject.toml").write_text("[tool]\ntcprobe = 3\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no table"):
        find_settings(tmp_path / "m.py")


@pytest.mark.parametrize(("text", "value"), [("5%", 5.0), ("5 %", 5.0), ("0", 0.0), (2.5, 2.5), ("100", 100.0)])
def test_percentages(text: str | float, value: float) -> None:
    assert percentage(text) == value


@pytest.mark.parametrize("text", ["", "%", "five", "-1", "nan", "101", "inf"])
def test_what_is_no_percentage(text: str) -> None:
    with pytest.raises(ValueError):
        percentage(text)


def test_codes_from_text_and_lists() -> None:
    assert codes("tc101, TC2,,tc101") == ("TC101", "TC2")
    assert codes(["TC1", " tc205 "]) == ("TC1", "TC205")


@pytest.mark.parametrize(
    "line",
    [
        f"batch-size = 0x{'f' * 5000}",
        f"batch-size = {'9' * 5000}",
        f"batch-size = {2**64}",
        f"fail-over = 0x{'f' * 5000}",
        f"mode = 0x{'f' * 5000}",
        f"input-shape = '{'9' * 4000}'",
        f"select = {'[' * 5000}{']' * 5000}",
        f"mode{'.a' * 3000} = 1",
        f"a{'.a' * 100_000} = 1",
        f"{'a' * 100_000} = 1",
        f"dtype = '{'a' * 100_000}'",
        "#" + "a" * 3_000_000,
    ],
    ids=range(12),
)
def test_what_no_setting_can_be_gets_one_short_error(tmp_path: Path, line: str) -> None:
    model = written(tmp_path, line)
    with pytest.raises(TcprobeError) as raised:
        find_settings(model)
    assert "pyproject.toml" in raised.value.message
    assert len(f"{raised.value.message} {raised.value.hint}") < 1000
