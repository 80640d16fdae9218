"""An input is a few files by their paths; the corpus keeps each as a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Input:
    """What one call of tcprobe reads: the content of files by their paths below one folder."""

    files: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(map(len, self.files.values()))

    @property
    def digest(self) -> str:
        """Return twelve characters that tell this input from others."""
        made = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            made.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
        return made.hexdigest()[:12]

    @property
    def digest_number(self) -> int:
        """Return the digest as a number, by which an input has its turn at something."""
        return int(self.digest, 16)

    def changed(self, name: str, content: bytes) -> Input:
        """Return the input with other content of one file."""
        return Input({**self.files, name: content})

    def write(self, folder: Path) -> None:
        """Write the files below a folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            path = folder / name
            if path.parent != folder:
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def packed(made: Input) -> bytes:
    """Return an input as one text of bytes."""
    return json.dumps({name: content.decode("latin-1") for name, content in made.files.items()}).encode()


def unpacked(data: bytes) -> Input | None:
    """Return the input of a text; None if it is none."""
    try:
        return Input({name: text.encode("latin-1") for name, text in json.loads(data).items()})
    except (ValueError, AttributeError, RecursionError):
        return None


def load(folder: Path) -> Input:
    """Return the input that a folder keeps."""
    return Input({str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()})


def kept(target: str) -> dict[str, Input]:
    """Return the inputs of the corpus that a target has, by name."""
    found = CORPUS / target
    return {p.name: load(p) for p in sorted(found.iterdir()) if p.is_dir()} if found.is_dir() else {}
