"""`audit-shapes --fix` over several files: all are changed or none, whatever befalls it, and no other file is left."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tcprobe.audit.fix.write import write
from tcprobe.errors import OutputError
from tests.audit.fix.test_write import change
from tests.cli.struck import WAYS, struck
from tests.cli.test_audit_shapes import BAD, CLEAN, HALF
from tests.faults.table import MOUNTS
from tests.faults.test_storage import small_disk
from tests.support import NOBODY, place_for_all, without_rights

FIX = [*WAYS["-m"], "audit-shapes", "--mode", "source", *HALF, "--fix", "."]
NAMES = ("a.py", "b.py", "c.py")
OLD, NEW = "N = 63\n", "N = 64\n"


@pytest.fixture(name="project")
def bad_project(tmp_path: Path) -> Path:
    """Return a folder with three scripts to mend."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "project").mkdir()
    for name in NAMES:
        (tmp_path / "project" / name).write_text(BAD)
    return tmp_path / "project"


def held(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


MOMENTS = [("tempfile.mkstemp", 1), ("tempfile.mkstemp", 3), ("os.rename", 1), ("os.rename", 3)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("event", "at"), MOMENTS)
def test_a_signal_waits_until_all_are_written(project: Path, number: signal.Signals, event: str, at: int) -> None:
    environment = struck(project.parent / "hook", number, event, at)
    done = subprocess.run(FIX, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == (130 if number == signal.SIGINT else -number)
    assert held(project) == dict.fromkeys(NAMES, CLEAN)
    wrote = [line for line in done.stderr.splitlines() if line.startswith("tcprobe: wrote ")]
    assert wrote == [f"tcprobe: wrote {project.resolve() / name}" for name in NAMES]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_changes_nothing(project: Path, number: signal.Signals) -> None:
    environment = struck(project.parent / "hook", number, "import", 1, "tcprobe.audit.fix.write")
    done = subprocess.run(FIX, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == (130 if number == signal.SIGINT else -number)
    assert held(project) == dict.fromkeys(NAMES, BAD)
    assert "wrote" not in done.stderr


def test_a_file_with_another_name_is_left_and_the_rest_is_done(project: Path) -> None:
    """To replace it would part the two names: one would keep the old text."""
    (project / "b.txt").hardlink_to(project / "b.py")
    done = subprocess.run(FIX, cwd=project, capture_output=True, text=True)
    assert held(project) == {"a.py": CLEAN, "b.py": BAD, "b.txt": BAD, "c.py": CLEAN}
    assert (project / "b.py").samefile(project / "b.txt")
    assert f"{project.resolve() / 'b.py'}: has 2 names (hard links)" in done.stderr
    assert done.stderr.count("wrote") == 2
    assert done.returncode == 1


@pytest.fixture(name="place")
def a_place_for_all() -> Iterator[Path]:
    with place_for_all() as folder:
        yield folder


def refused(files: list[Path], spoil: Callable[[], object]) -> str:
    """Change files that something was done to meanwhile, as a user without rights; return why that is refused."""
    fixes, sources = zip(*map(change, files), strict=True)
    for path in files:
        path.chmod(0o666)
        if not os.getuid():
            os.chown(path, NOBODY, NOBODY)
    spoil()
    before = {folder: sorted(folder.iterdir()) for folder in {path.parent for path in files}}
    with without_rights(), pytest.raises(OutputError) as caught:
        write(fixes, {source.path: source for source in sources})
    assert [path.read_text() for path in files] == [OLD] * len(files)
    assert {folder: sorted(folder.iterdir()) for folder in before} == before
    return caught.value.message


@pytest.fixture(name="files")
def files_of_two_folders(place: Path) -> list[Path]:
    """Return two files in folders that everybody may write."""
    files = [place / "a" / "m.py", place / "b" / "n.py"]
    for path in files:
        path.parent.mkdir()
        path.parent.chmod(0o777)
        path.write_text(OLD)
    return files


def test_the_second_is_read_only(files: list[Path]) -> None:
    why = refused(files, lambda: files[1].chmod(0o444))
    assert why == f"{files[1]}: cannot be written: Permission denied; nothing was written"


def test_the_folder_of_the_second_cannot_be_written(files: list[Path]) -> None:
    why = refused(files, lambda: files[1].parent.chmod(0o555))
    files[1].parent.chmod(0o777)
    assert why == f"{files[1]}: cannot be written: Permission denied; nothing was written"


@pytest.mark.skipif(not MOUNTS.met(), reason=f"needs: {MOUNTS.words}")
def test_what_was_replaced_is_put_back_where_the_next_is_refused(files: list[Path], place: Path) -> None:
    """A file that a container has from outside can be written, not replaced."""
    outside = place / "outside.py"
    outside.write_text(OLD)
    subprocess.run(["mount", "--bind", outside, files[1]], check=True)
    try:
        why = refused(files, lambda: None)
    finally:
        subprocess.run(["umount", files[1]], check=True)
    assert why == f"{files[1]}: cannot be written: Device or resource busy; nothing was written"


@pytest.mark.skipif(not MOUNTS.met(), reason=f"needs: {MOUNTS.words}")
def test_the_disk_of_the_second_is_full(files: list[Path], place: Path) -> None:
    with small_disk(place / "disk", "size=64k,mode=777") as disk:
        files[1] = disk / "n.py"
        files[1].write_text(OLD)
        filler = disk / "filler"

        def fill() -> None:
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(512))

        why = refused(files, fill)
    assert why == f"{files[1]}: cannot be written: No space left on device; nothing was written"


def test_what_cannot_be_put_back_is_named(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    fixes, sources = zip(*map(change, files), strict=True)
    replace, count = Path.replace, iter(range(9))

    def once(self: Path, target: Path) -> Path:
        if next(count):
            raise OSError(errno.EIO, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", once)
    with pytest.raises(OutputError, match=f"error; changed all the same: {files[0]}$"):
        write(fixes, {source.path: source for source in sources})
    assert [path.read_text() for path in files] == [NEW, OLD]
    assert [len(list(path.parent.iterdir())) for path in files] == [1, 1]
