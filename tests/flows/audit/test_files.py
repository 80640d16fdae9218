"""Which files an audit looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.errors import EmptyInput, MissingInput, UsageError
from tcprobe.flows.audit.files import find_targets, repository


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


def test_a_folder_without_python_and_no_name_at_all(tree: Path) -> None:
    (tree / "empty").mkdir()
    with pytest.raises(EmptyInput, match="no Python file"):
        find_targets(["empty"])
    with pytest.raises(UsageError, match="no file"):
        find_targets([])


def test_the_repository_is_the_nearest_folder_with_git(tree: Path) -> None:
    assert repository(tree / "pkg/b.py") == tree
    (tree / "pkg/.git").touch()  # of a submodule or worktree it is a file
    assert repository(tree / "pkg/sub/c.py") == tree / "pkg"
