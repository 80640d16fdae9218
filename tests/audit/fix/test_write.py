"""Fixes written to files: encodings and line ends kept, all files or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tcprobe.audit.fix.write import write
from tcprobe.audit.source.read import read_source
from tcprobe.errors import InputError, MissingInput, OutputError, UnreadableInput, WrongFormat
from tcprobe.schema.finding import Edit, Fix
from tcprobe.schema.model import Place
from tcprobe.schema.statement import say
from tcprobe.source.source import Source


def change(path: Path, before: str = "63", after: str = "64") -> tuple[Fix, Source]:
    source = read_source(path)
    line = next(i for i, text in enumerate(source.lines, 1) if before in text)
    column = source.lines[line - 1].index(before) + 1
    place = Place(source.path, line, column, line, column + len(before))
    return Fix(say("scale_as_keras_3"), (Edit(place, before, after),)), source


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"N = 63\n", id="plain"),
        pytest.param(b"N = 63", id="no last line end"),
        pytest.param(b"\tx = 1\r\nN = 63\r\n".replace(b"\tx", b"x"), id="CRLF"),
        pytest.param(b"x = 1\r\ny = 2\nN = 63\r\n", id="mixed line ends"),
        pytest.param(b"\xef\xbb\xbfN = 63  # \xc3\xa9\r\n", id="BOM"),
        pytest.param(b"# -*- coding: latin-1 -*-\nx = '\xe9'; N = 63\n", id="latin-1"),
        pytest.param(b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nx = '\x80'; N = 63\n", id="cp1252"),
        pytest.param("# coding: shift_jis\nx = '日本'; N = 63 # 語\n".encode("shift_jis"), id="shift_jis"),
        pytest.param(b"if 1:\n\tN = 63\t# tab\f\n", id="tabs and a form feed"),
        pytest.param("x = '\u2028\U0001f600'; N = 63\n".encode(), id="separators and emoji"),
    ],
)
def test_everything_else_stays_bit_for_bit(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.py"
    path.write_bytes(content)
    path.chmod(0o750)
    fix, source = change(path)
    assert write([fix], {source.path: source}) == [str(path)]
    assert path.read_bytes() == content.replace(b"63", b"64")
    assert path.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [path]


def test_several_files_are_written_or_none(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.py", "b.py")]
    for path in paths:
        path.write_text("N = 63\n", encoding="utf-8")
    fixes, read = zip(*(change(p) for p in paths), strict=True)
    sources = {s.path: s for s in read}
    paths[1].write_text("# new\nN = 63\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.py: it changed since it was read; nothing was written"):
        write(fixes, sources)
    assert paths[0].read_text(encoding="utf-8") == "N = 63\n"
    paths[1].write_text("N = 63\n", encoding="utf-8")
    assert write(fixes, sources) == [str(p) for p in paths]
    assert [p.read_text(encoding="utf-8") for p in paths] == ["N = 64\n"] * 2
    assert sorted(tmp_path.iterdir()) == paths
    with pytest.raises(InputError, match="changed since it was read"):
        write(fixes, sources)


def test_a_file_that_is_gone_or_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("N = 63\n", encoding="utf-8")
    fix, source = change(path)
    path.unlink()
    with pytest.raises(MissingInput, match="it is gone; nothing was written"):
        write([fix], {source.path: source})
    path.mkdir()
    with pytest.raises(UnreadableInput, match="nothing was written"):
        write([fix], {source.path: source})


def test_a_file_that_is_binary_by_now(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("N = 63\n", encoding="utf-8")
    fix, source = change(path)
    path.write_bytes(b"N = 63\xff\n")
    with pytest.raises(InputError, match="changed since it was read"):
        write([fix], {source.path: source})
    assert path.read_bytes() == b"N = 63\xff\n"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_text("N = 63\n", encoding="utf-8")
    link.symlink_to(real)
    fix, source = change(link)
    write([fix], {source.path: source})
    assert link.is_symlink() and real.read_text(encoding="utf-8") == "N = 64\n"


def test_a_system_that_refuses_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in ("a.py", "b.py")]
    for path in paths:
        path.write_text("N = 63\n", encoding="utf-8")
    fixes, read = zip(*(change(p) for p in paths), strict=True)
    real = Path.chmod

    def refuse(self: Path, mode: int) -> None:
        if "b.py" in self.name:
            raise PermissionError(13, "Permission denied", str(self))
        real(self, mode)

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(OutputError, match="cannot be written: Permission denied"):
        write(fixes, {s.path: s for s in read})
    assert [p.read_text(encoding="utf-8") for p in paths] == ["N = 63\n"] * 2
    assert sorted(tmp_path.iterdir()) == paths


def test_the_owner_stays(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can write another user's files and leave them his")
    path = tmp_path / "a.py"
    path.write_text("N = 63\n", encoding="utf-8")
    os.chown(path, 65534, 65534)
    fix, source = change(path)
    write([fix], {source.path: source})
    assert (path.stat().st_uid, path.stat().st_gid, path.read_text()) == (65534, 65534, "N = 64\n")


def test_the_longest_name_has_room_for_a_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 252 + ".py")
    path.write_text("N = 63\n", encoding="utf-8")
    fix, source = change(path)
    assert write([fix], {source.path: source}) == [str(path)]
    assert path.read_text() == "N = 64\n"


def test_a_fifo_in_the_place_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("N = 63\n", encoding="utf-8")
    fix, source = change(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(WrongFormat, match=r"is a FIFO.*; nothing was written"):
        write([fix], {source.path: source})
