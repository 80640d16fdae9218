"""Names of files that no system takes, given to the Python API: an error of tcprobe, which names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tcprobe
from tcprobe.errors import TcprobeError
from tests.fixtures import xplane

PROFILE = Path(xplane.__file__).parent / "two_gpus.xplane.pb"
TAKES: dict[str, Callable[[str], object]] = {
    "read": tcprobe.read,
    "compare, first": lambda name: tcprobe.compare(name, PROFILE),
    "compare, second": lambda name: tcprobe.compare(PROFILE, name),
    "audit_shapes": lambda name: tcprobe.audit_shapes(name, mode="source"),
    "profile": lambda name: tcprobe.profile(lambda: None, output=name),
    "KerasCallback": lambda name: tcprobe.KerasCallback(output=name),
    "save": lambda name: tcprobe.read(PROFILE).save(name),
}
NAMES = {
    "NUL": ("a\0b.py", "no file can have this name"),
    "half a pair": ("\ud800.py", "no file can have this name"),
    "long": ("n" * 5000, "File name too long"),
    "through a file": ("m.py/x", "Not a directory"),
    "a link to itself": ("loop", "Too many levels of symbolic links"),
    "empty": ("", '"" names no file or folder'),
}


@pytest.mark.parametrize("function", TAKES)
@pytest.mark.parametrize("kind", NAMES)
def test_a_name_that_no_system_takes(kind: str, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.py").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    name, why = NAMES[kind]
    with pytest.raises(TcprobeError) as caught:
        TAKES[function](name)
    assert caught.value.message.startswith(name)
    assert why in caught.value.message
    assert len(list(tmp_path.iterdir())) == 2
