"""Folders that a script adds to `sys.path`, by its own text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tcprobe.audit.source.read import read_model, read_source
from tcprobe.source.paths import added_folders

HERE = "here = os.path.dirname(os.path.abspath(__file__))\n"


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("sys.path.append('..')", ["/a/b"]),
        ("sys.path.insert(0, '../lib')", ["/a/b/lib"]),
        ("sys.path.append('/opt/lib')", ["/opt/lib"]),
        ("sys.path.extend(['lib', '../lib', 'lib'])", ["/a/b/c/lib", "/a/b/lib"]),
        ("sys.path += ['lib']", ["/a/b/c/lib"]),
        ("sys.path = ['lib'] + sys.path", ["/a/b/c/lib"]),
        ("site.addsitedir('lib')", ["/a/b/c/lib"]),
        ("sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'lib'))", ["/a/b/lib"]),
        ("sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))", ["/a/b"]),
        (HERE + "sys.path.append(here)", ["/a/b/c"]),
        (HERE + "sys.path.append(here + '/lib')", ["/a/b/c/lib"]),
        (HERE + "sys.path.append(f'{here}/../lib')", ["/a/b/lib"]),
        ("sys.path.append(str(Path(__file__).resolve().parent.parent / 'lib'))", ["/a/b/lib"]),
        ("sys.path.append(str(pathlib.Path(__file__).parents[1].joinpath('lib')))", ["/a/b/lib"]),
        ("sys.path.append(os.getcwd())", ["/a/b/c"]),
        ("sys.path.append(os.path.abspath('../'))", ["/a/b"]),
        ("sys.path.append(os.environ['LIB'])", []),
        ("sys.path.append(os.path.join(args.root, 'lib'))", []),
        ("here = 'x'\nhere = 'y'\nsys.path.append(here)", []),
        ("here = here + 'x'\nsys.path.append(here)", []),
        ("print(sys.path[0]); paths.append('..')", []),
    ],
)
def test_literals_and_paths_from_the_place_of_the_file(text: str, folders: list[str]) -> None:
    assert added_folders(ast.parse(text), "/a/b/c/train.py") == tuple(folders)


def test_a_model_from_an_added_folder_is_followed_and_what_its_file_imports_from_there(tmp_path: Path) -> None:
    for name, text in {
        "app/train.py": "import sys\nsys.path.append('../lib')\nfrom net.wide import build\nmodel = build()\n",
        "lib/net/wide.py": "import keras\nfrom sizes import units\ndef build():\n"
        "    return keras.Sequential([keras.Input((64,)), keras.layers.Dense(units)])\n",
        "lib/sizes.py": "units = 250\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (model,) = read_model(read_source(tmp_path / "app" / "train.py"))
    assert [layer.config["units"] for layer in model.layers] == [250]
