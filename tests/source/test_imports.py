from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.source.imports import file_of

FILES = (
    "train.py", "model.py", "keras.py", "numpy/__init__.py", "plain/deep.py",
    "mylib/__init__.py", "mylib/blocks.py", "mylib/layers/__init__.py", "mylib/layers/conv.py", "mylib/model.py",
    "examples/run.py", "src/other/__init__.py", "src/other/heads.py",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    for name in (*FILES, "../outside.py", "../beside/__init__.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder.resolve()


@pytest.mark.parametrize(
    ("importing", "module", "found"),
    [
        ("train.py", "model", "model.py"),
        ("train.py", "mylib.blocks", "mylib/blocks.py"),
        ("train.py", "mylib", "mylib/__init__.py"),
        ("train.py", "plain.deep", "plain/deep.py"),
        ("train.py", "plain", None),
        ("train.py", "absent.blocks", None),
        ("train.py", "keras", None),
        ("train.py", "numpy", None),
        ("train.py", "train", None),
        ("train.py", "outside", None),
        ("train.py", "beside", None),
        ("mylib/blocks.py", ".layers", "mylib/layers/__init__.py"),
        ("mylib/blocks.py", ".layers.conv", "mylib/layers/conv.py"),
        ("mylib/layers/conv.py", "..blocks", "mylib/blocks.py"),
        ("mylib/layers/conv.py", ".", "mylib/layers/__init__.py"),
        ("mylib/layers/conv.py", "..", "mylib/__init__.py"),
        ("mylib/layers/conv.py", "....outside", None),
        ("mylib/layers/conv.py", "." * 200 + "outside", None),
        ("mylib/layers/conv.py", "mylib.model", "mylib/model.py"),
        ("mylib/layers/__init__.py", ".conv", "mylib/layers/conv.py"),
        ("mylib/layers/__init__.py", ".", None),
        ("examples/run.py", "mylib.layers", "mylib/layers/__init__.py"),
        ("examples/run.py", "other.heads", "src/other/heads.py"),
    ],
)
def test_a_module_is_the_file_that_python_would_take(
    tree: Path, importing: str, module: str, found: str | None
) -> None:
    expected = str(tree / found) if found else None
    assert file_of(module, str(tree / importing), str(tree)) == expected


@pytest.mark.parametrize(
    ("importing", "module", "found"),
    [
        ("mylib/layers/conv.py", "mylib.blocks", "mylib/blocks.py"),
        ("mylib/layers/conv.py", "..blocks", "mylib/blocks.py"),
        ("train.py", "model", "model.py"),
        ("train.py", "mylib.blocks", "mylib/blocks.py"),
        ("examples/run.py", "mylib.layers", None),
        ("mylib/blocks.py", "..model", None),
    ],
)
def test_a_file_named_by_itself_has_its_package_or_folder_around_it(
    tree: Path, importing: str, module: str, found: str | None
) -> None:
    expected = str(tree / found) if found else None
    assert file_of(module, str(tree / importing)) == expected


def test_a_module_beside_a_package_of_the_tree_is_no_part_of_that_package(tree: Path) -> None:
    assert file_of("model", str(tree / "mylib" / "blocks.py"), str(tree / "mylib")) == str(tree / "mylib" / "model.py")
