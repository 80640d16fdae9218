"""Files that others made: special ones, links, sizes, names, and folders of many."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tcprobe import foreign
from tcprobe.errors import InputError, MissingInput, UnreadableInput, WrongFormat
from tcprobe.foreign import below, head, leads_out, opened, read, read_text, size_text, walk

MOST = 1 << 20


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def bound(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as made:
        try:
            made.bind(str(path))
        except OSError as error:
            pytest.skip(f"no socket can be made here: {error}")
    return path


def device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def link_to_itself(path: Path) -> Path:
    path.symlink_to(path.name)
    return path


def sparse(path: Path) -> Path:
    path.touch()
    os.truncate(path, 100 << 30)
    return path


SPECIAL: dict[Callable[[Path], Path], tuple[type[InputError], str]] = {
    fifo: (WrongFormat, "is a FIFO"),
    bound: (WrongFormat, "is a socket"),
    device: (WrongFormat, "is a character device"),
    folder: (UnreadableInput, "it is a folder"),
    link_to_itself: (UnreadableInput, "Too many levels of symbolic links"),
    sparse: (WrongFormat, "is too large: 100 GiB; at most 1 MiB are read"),
}
"""What is no file to be read, by how it is made: the error, and what it says."""


@pytest.mark.parametrize("make", SPECIAL, ids=lambda make: make.__name__)
def test_what_is_no_file_is_refused_and_never_waited_on(make: Callable[[Path], Path], tmp_path: Path) -> None:
    error, said = SPECIAL[make]
    path = make(tmp_path / "f")
    with pytest.raises(error, match=said):
        read(path, MOST)
    assert head(path, 4) == (b"\0" * 4 if make is sparse else None)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("gone")
    for name in ("none", "link"):
        with pytest.raises(MissingInput, match="no such file"):
            read(tmp_path / name, MOST)


def test_files_of_the_kernel_that_say_they_are_empty() -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("there is no /proc here")
    with pytest.raises(WrongFormat, match="is said to hold nothing and holds bytes"):
        read(Path("/proc/self/maps"), MOST)


def test_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "f").touch()
    monkeypatch.setattr(foreign.os, "open", refuse)
    with pytest.raises(UnreadableInput, match="cannot be read: Permission denied") as caught:
        read(tmp_path / "f", MOST)
    assert caught.value.hint == "check the permissions"
    assert head(tmp_path / "f", 1) is None


def test_an_unprivileged_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "f").chmod(0o600)
    os.seteuid(65534)
    try:
        with pytest.raises(UnreadableInput, match="Permission denied"):
            read(tmp_path / "f", MOST)
        left: dict[str, str] = {}
        list(walk(tmp_path.parent.parent, left))
        assert "Permission denied" in str(left)
    finally:
        os.seteuid(0)


def test_a_memory_that_is_too_small(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(UnreadableInput, match="the memory does not hold it"), opened(tmp_path / "f", MOST):
        raise MemoryError


def test_a_file_that_grows_ends_where_it_ended_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\n")
    with opened(path, MOST) as file, path.open("ab") as more:
        assert file.readline() == b"one\n"
        more.write(b"three\n" * 100_000)
        more.flush()
        assert file.read() == b"two\n"
        assert file.read(10) == b""
        assert file.seek(0, os.SEEK_END) == 8
        assert (file.seek(4), file.read()) == (4, b"two\n")
    with opened(path, MOST) as file:
        os.truncate(path, 5)
        assert file.read() == b"one\nt"


def test_text_and_its_line_ends(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("ä\r\nb\rc\n".encode())
    assert read_text(tmp_path / "f", MOST) == "ä\nb\nc\n"
    with pytest.raises(UnicodeError):
        read_text(tmp_path / "f", MOST, encoding="ascii")


def test_a_link_is_followed_up_to_the_end_of_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_text("s")
    (home / "f").write_text("f")
    (home / "in").symlink_to("f")
    (home / "out").symlink_to("../secret")
    (tmp_path / "way").symlink_to("home")
    assert read(home / "out", MOST) == b"s", "a link that the user names is followed"
    assert read(home / "in", MOST, within=home) == b"f"
    assert read(tmp_path / "way" / "in", MOST, within=home) == b"f"
    with pytest.raises(WrongFormat, match="leads out of the folder, and is not followed"):
        read(home / "out", MOST, within=home)
    assert leads_out(tmp_path / "homely", home)
    assert not leads_out(home, home)


def anything(_: str) -> bool:
    return True


def test_a_search_stays_in_its_folder_and_says_what_it_left(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (home / "sub" / "f").write_text("f")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "f").write_text("f")
    for name, target in (("out", "../away/f"), ("away", "../away"), ("root", "/"), ("gone", "none"), ("loop", "loop")):
        (home / name).symlink_to(target)
    (home / "up").symlink_to(".")
    (home / "in").symlink_to("sub/f")
    fifo(home / "fifo")
    found = below(home, anything)
    assert found.files == (home / "in", home / "sub" / "f")
    left = {Path(name).name: why for name, why in found.left.items()}
    assert left == {
        **dict.fromkeys(("away", "out", "root"), "a link that leads out of the folder"),
        "fifo": "a FIFO (named pipe)",
        "gone": "cannot be read: No such file or directory",
        "loop": "cannot be read: Too many levels of symbolic links",
    }
    assert below(home, lambda name: name == "f").left.keys() == {str(home / "away"), str(home / "root")}


def test_a_search_ends_after_so_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "f").touch()
    left: dict[str, str] = {}
    assert len(list(walk(tmp_path, left, most=7))) == 2
    assert not left
    assert len(list(walk(tmp_path, left, most=6))) == 1
    assert list(left) == [str(tmp_path)]
    assert "not searched to its end: it holds more than" in left[str(tmp_path)]
    assert foreign.MOST_ENTRIES >= 200_000


def test_a_search_ends_so_many_levels_deep(tmp_path: Path) -> None:
    """A thousand folders, one in the other: a path of them all is longer than the system takes."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1000):
        os.mkdir("deeper", dir_fd=here)
        down = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = down
    os.close(here)
    left: dict[str, str] = {}
    found = list(walk(tmp_path, left))
    subprocess.run(["rm", "-rf", tmp_path / "deeper"], check=True)  # what Python has for it would go too deep
    assert len(found) == foreign.MOST_LEVELS + 1
    assert list(left.values()) == [f"not searched: it lies more than {foreign.MOST_LEVELS} levels deep"]


def test_a_folder_of_ten_thousand_files_takes_no_time(tmp_path: Path) -> None:
    for number in range(10_000):
        os.mknod(tmp_path / f"{number}.txt")
    begun = time.process_time()
    assert below(tmp_path, lambda name: name.endswith(".pb")) == foreign.Below((), {})
    assert time.process_time() - begun < 1, "15 ms were measured"


def test_names_of_any_bytes_and_of_the_longest(tmp_path: Path) -> None:
    names = [b"new\nline.pb", b"\xff\xfe.pb", b"\x1b[31m.pb", b"n" * 252 + b".pb", b"A.pb", b"a.pb", b" .pb", b"-o.pb"]
    for name in names:
        Path(tmp_path, os.fsdecode(name)).write_bytes(b"x")
    files = below(tmp_path, anything).files
    assert sorted(os.fsencode(path.name) for path in files) == sorted(names)
    assert all(read(path, 1) == b"x" for path in files)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1 << 10, "1 KiB"), (3 << 19, "1.5 MiB"), (1 << 32, "4 GiB")]
)
def test_sizes_in_words(size: int, text: str) -> None:
    assert size_text(size) == text
