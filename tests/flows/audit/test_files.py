"""Which files an audit looks at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tcprobe.errors import EmptyInput, MissingInput, UnreadableInput, UsageError
from tcprobe.flows.audit.files import Exclusion, find_targets, first_named, repository, standard_input


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with code of its own and much that is not."""
    own = ["a.py", "pkg/b.py", "pkg/sub/c.py"]
    other = [
        ".hidden.py", ".git/x.py", "venv/x.py", "my_env/lib/x.py", "pkg/__pycache__/x.py", "build/x.py", "notes.txt",
        "node_modules/x.py",
    ]  # fmt: skip
    for name in (*own, *other):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "my_env/pyvenv.cfg").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*names: str) -> list[str]:
    return [str(t.path.relative_to(Path.cwd().resolve())) for t in find_targets(names).files]


def test_a_folder_has_its_own_python_files_in_order(tree: Path) -> None:
    assert found(".") == ["a.py", "pkg/b.py", "pkg/sub/c.py"]
    assert find_targets(["pkg"]).folder
    assert not find_targets(["a.py"]).folder


def test_a_file_is_audited_once_and_in_the_order_given(tree: Path) -> None:
    assert found("pkg/b.py", "a.py", "./a.py", "pkg") == ["pkg/b.py", "a.py", "pkg/sub/c.py"]


def test_a_named_file_counts_wherever_it_lies(tree: Path) -> None:
    assert found("build/x.py") == ["build/x.py"]


def test_a_factory_follows_the_colon(tree: Path) -> None:
    (target,) = find_targets(["a.py:make"]).files
    assert (target.path, target.factory) == (tree / "a.py", "make")
    assert len(find_targets(["a.py:make", "a.py:other"]).files) == 2


def test_a_file_with_a_colon_in_its_name_is_itself(tree: Path) -> None:
    (tree / "a.py:make").touch()
    (target,) = find_targets(["a.py:make"]).files
    assert target.factory is None


@pytest.mark.parametrize("name", ["none.py", "none.py:make", "a.py:not a name", "a.py:"])
def test_what_is_not_there(tree: Path, name: str) -> None:
    with pytest.raises(MissingInput, match="no such file or folder"):
        find_targets([name])


def test_a_workload_that_comes_along_is_named_by_its_script() -> None:
    with pytest.raises(MissingInput) as raised:
        find_targets(["train_gan"])
    assert raised.value.hint is not None
    assert raised.value.hint.endswith("workloads/train_gan.py")


def test_a_folder_without_python_and_no_name_at_all(tree: Path) -> None:
    (tree / "empty").mkdir()
    with pytest.raises(EmptyInput, match="no Python file"):
        find_targets(["empty"])
    with pytest.raises(UsageError, match="no file"):
        find_targets([])


def test_of_several_names_the_good_ones_are_found_and_the_others_told(tree: Path) -> None:
    (tree / "empty").mkdir()
    targets = find_targets(["none.py", "a.py", "empty"])
    assert [target.named for target in targets.files] == ["a.py"]
    assert targets.failed == (
        (str(tree / "none.py"), "no such file or folder"),
        (str(tree / "empty"), "no Python file in this folder"),
    )
    assert targets.several
    assert not find_targets(["a.py", "./a.py"]).several


def test_a_folder_that_cannot_be_listed_is_told(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scandir(path: str) -> Any:
        if str(path).endswith("pkg"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    real = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    assert find_targets(["."], Exclusion(tree, ("pkg",))).failed == ()
    targets = find_targets(["."])
    assert ([t.named for t in targets.files], targets.failed) == (
        ["./a.py"],
        ((str(tree / "pkg"), "cannot be read: Permission denied"),),
    )
    with pytest.raises(UnreadableInput, match="Permission denied"):
        find_targets(["pkg"])


def test_notebooks_of_a_folder_are_found_but_not_their_checkpoints(tree: Path) -> None:
    for name in ("pkg/train.ipynb", "pkg/.ipynb_checkpoints/train.ipynb"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).touch()
    assert found("pkg") == ["pkg/b.py", "pkg/sub/c.py", "pkg/train.ipynb"]
    assert [target.itself for target in find_targets(["pkg", "a.py"]).files] == [False, False, False, True]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (("pkg",), ["a.py"]),
        (("./pkg/",), ["a.py"]),
        (("sub",), ["a.py", "pkg/b.py"]),
        (("pkg/sub",), ["a.py", "pkg/b.py"]),
        (("**/sub",), ["a.py", "pkg/b.py"]),
        (("*/c.py", "a.*"), ["pkg/b.py"]),
        (("b", "c", "ub"), ["a.py", "pkg/b.py", "pkg/sub/c.py"]),
    ],
)
def test_what_patterns_leave_out(tree: Path, patterns: tuple[str, ...], left: list[str]) -> None:
    targets = find_targets(["."], Exclusion(tree, patterns))
    assert [str(t.path.relative_to(tree)) for t in targets.files] == left


def test_what_is_named_is_left_out_only_by_force(tree: Path) -> None:
    patterns = ("pkg", "a.py")
    assert len(find_targets(["a.py", "pkg"], Exclusion(tree, patterns)).files) == 3
    targets = find_targets(["a.py", "pkg/b.py"], Exclusion(tree, patterns, force=True))
    assert (targets.files, targets.failed) == ((), ())


def test_patterns_work_from_another_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree / "pkg")
    named = [t.named for t in find_targets(["."], Exclusion(tree, ("pkg/sub",))).files]
    assert named == ["./b.py"]


def test_standard_input_has_the_name_that_it_is_given(tree: Path) -> None:
    (target,) = standard_input(b"x = 1", "pkg/new.py").files
    assert (target.path, target.named, target.content) == (tree / "pkg/new.py", "pkg/new.py", b"x = 1")
    assert standard_input(b"", None).files[0].named == "-"
    assert [first_named([name], "pkg/new.py") for name in ("-", "pkg", "a.py:make")] == [
        Path("pkg/new.py"), Path("pkg"), Path("a.py"),
    ]  # fmt: skip


def test_the_repository_is_the_nearest_folder_with_git(tree: Path) -> None:
    assert repository(tree / "pkg/b.py") == tree
    (tree / "pkg/.git").touch()  # of a submodule or worktree it is a file
    assert repository(tree / "pkg/sub/c.py") == tree / "pkg"


def test_links_that_lead_in_a_circle_and_folders_named_like_files(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "link.py").symlink_to("folder.py")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "a.py").touch()
    found = find_targets([str(tmp_path)])
    assert [file.path.name for file in found.files] == ["a.py", "loop.py"]
    assert not found.failed


def test_a_folder_that_is_too_deep_is_told(tmp_path: Path) -> None:
    deep = tmp_path / "/".join("d" * 70)
    deep.mkdir(parents=True)
    (deep / "a.py").touch()
    (tmp_path / "a.py").touch()
    found = find_targets([str(tmp_path)])
    assert [file.path for file in found.files] == [tmp_path / "a.py"]
    ((_, why),) = found.failed
    assert why == "not searched: it lies more than 64 levels deep"
