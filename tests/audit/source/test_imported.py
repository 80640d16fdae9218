"""Other files of the tree: what they define is followed where it is used, and judged once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tcprobe.audit.source.read import Answers, read_model, read_source
from tcprobe.flows.audit.flow import AuditOutcome, audit
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.schema.model import InputShape, Layer, Model

HEAD = "import keras\nfrom keras import layers\n"
BLOCKS = """
from keras import layers
from .config import HIDDEN

class Block(layers.Layer):
    def __init__(self, filters):
        super().__init__()
        self.conv = layers.Conv2D(filters, 3, padding="same")

    def call(self, x):
        return self.conv(x)

def head(x, units=130):
    return layers.Dense(units)(layers.Dense(HIDDEN)(layers.Flatten()(x)))

def unused():
    return layers.Dense(77)
"""
NETS = """
import keras
def make(shape):
    x = keras.Input(shape)
    return keras.Model(x, keras.layers.Dense(64)(x))
"""
TRAIN = """
import keras
from lib.blocks import Block, head
inputs = keras.Input((32, 32, 3))
model = keras.Model(inputs, head(Block(63)(inputs)))
"""


def tree(tmp_path: Path, **files: str) -> Path:
    """Write files, ``__`` in their names a folder."""
    for name, text in {"lib__/__init__": "", **files}.items():
        path = tmp_path / f"{name.replace('__/', '/').replace('___', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def library(tmp_path: Path, train: str = TRAIN, blocks: str = BLOCKS, config: str = "HIDDEN = 250\n") -> Path:
    return tree(tmp_path, train=train, lib___blocks=blocks, lib___config=config)


def read(folder: Path, name: str = "train.py", whole: bool = True) -> Model:
    (model,) = read_model(read_source(folder / name, str(folder) if whole else None))
    return model


def sizes(model: Model) -> dict[str, object]:
    """Return the size of each layer that multiplies, by its file and name."""
    return {
        f"{Path(layer.place.file).stem}:{layer.kind}": layer.config.get("units", layer.config.get("filters"))
        for layer in model.layers
        if layer.place is not None and layer.kind in ("Dense", "Conv2D")
    }


def dense(model: Model) -> list[Layer]:
    return [layer for layer in model.layers if layer.kind == "Dense"]


def test_classes_functions_and_constants_of_other_files_are_followed_where_they_are_used(tmp_path: Path) -> None:
    model = read(library(tmp_path))
    assert sizes(model) == {"blocks:Conv2D": 63, "blocks:Dense": 250}
    assert [layer.config["units"] for layer in dense(model)] == [130, 250]
    assert len(model.products) == 8
    assert not model.unseen
    assert dense(model)[1].input_shapes == ((None, 32 * 32 * 63),)


@pytest.mark.parametrize(
    "imports",
    [
        "import lib.blocks as b\nBlock, head = b.Block, b.head",
        "from lib import blocks\nBlock, head = blocks.Block, blocks.head",
        "import lib.blocks\nBlock, head = lib.blocks.Block, lib.blocks.head",
        "from lib.blocks import *",
        "try:\n    from lib.blocks import Block, head\nexcept ImportError:\n    pass",
        "from lib.blocks import Block as B, head\nBlock = B",
    ],
)
def test_every_form_of_import_is_followed(tmp_path: Path, imports: str) -> None:
    train = TRAIN.replace("from lib.blocks import Block, head", imports)
    assert sizes(read(library(tmp_path, train))) == {"blocks:Conv2D": 63, "blocks:Dense": 250}


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ("HIDDEN = 250", 250),
        ("HIDDEN = 100\nHIDDEN = 250", 250),
        ("SIZES = [1]\nSIZES.append(250)\nHIDDEN = SIZES[1]", 250),
        ("from .more import HIDDEN", 260),
        ("from . import more\nHIDDEN = more.HIDDEN + 1", 261),
        ("n = 3\nHIDDEN = n\nn = 5", ...),  # which `n` it was is not told by the end of the file
        ("HIDDEN = 3\ndef change():\n    global HIDDEN\n    HIDDEN = 5", ...),
        ("import os\nHIDDEN = int(os.environ['H'])", ...),
        ("from .config import HIDDEN", ...),
        ("from .round import HIDDEN", ...),
        ("HIDDEN = 1 +", ...),
    ],
)
def test_a_constant_is_what_it_is_when_its_module_has_run(tmp_path: Path, config: str, size: object) -> None:
    folder = library(tmp_path, config=config)
    tree(folder, lib___more="HIDDEN = 260", lib___round="from .config import HIDDEN")
    assert dense(read(folder))[1].config["units"] == size


def test_what_no_one_uses_of_another_file_is_left_to_that_file(tmp_path: Path) -> None:
    assert not any(layer.config.get("units") == 77 for layer in read(library(tmp_path)).layers)
    assert any(layer.config.get("units") == 77 for layer in read(library(tmp_path), "lib/blocks.py").layers)


def test_what_a_package_may_import_is_not_read_for_a_name_that_it_may_lack(tmp_path: Path) -> None:
    package = "if UNKNOWN:\n    from .many import WIDTH\n    from .others import Other\nelse:\n    pass\n"
    train = "import keras\nfrom lib import WIDTH\nkeras.layers.Dense(WIDTH)\n"
    many = {"lib___many": "WIDTH = 250\n", "lib___others": "from keras import Model as Other\n"}
    root = tree(tmp_path, **many, **{"lib__/__init__": package}, train=train)
    answers = read_source(root / "train.py", str(root)).readings
    assert isinstance(answers, Answers)
    assert [draft.missing for draft in answers.state.layers.drafts] == [{"units": "is set under a condition"}]
    assert {Path(path).name for path in answers.state.modules} == {"__init__.py"}


def test_products_of_another_file_without_sizes_are_left_to_it_in_a_tree(tmp_path: Path) -> None:
    folder = library(tmp_path, TRAIN.replace("keras.Input((32, 32, 3))", "keras.Input((None, None, 3))"))
    assert [p.record.output_shape for p in read(folder).products if p.record.pass_ == "forward"] == [(1024, 130)]
    assert len(read(folder, whole=False).products) == 8
    assert not read(folder).unseen
    assert read(folder, whole=False).unseen


DEEP = """
from keras import layers, models

class Unit(layers.Layer):
    def __init__(self, filters):
        super().__init__()
        self.down = layers.Conv2D(filters // 4, 1)
        self.conv = layers.Conv2D(filters // 4, 3, padding="same")
        self.up = layers.Conv2D(filters, 1)

    def call(self, x):
        return self.up(self.conv(self.down(x)))

class Net(models.Model):
    def __init__(self, counts):
        super().__init__()
        self.stages = [Unit(64 * 2**n) for n, count in enumerate(counts) for _ in range(count)]

    def call(self, x):
        for stage in self.stages:
            x = stage(x)
        return x

def net():
    return Net([3, 8, 36, 3])
"""


@pytest.mark.parametrize(
    "train",
    [
        "from lib.nets import net\nmodel = net()\nmodel.build((None, 64, 64, 3))\n",
        "import keras\nfrom lib.nets import net\ndef make(size=64):\n    return net()(keras.Input((size, size, 3)))\n",
    ],
    ids=["built", "nobody calls it"],
)
def test_a_deep_model_of_another_file_is_followed_to_its_end(tmp_path: Path, train: str) -> None:
    """Constructing its 50 blocks takes many steps, before any size arrives."""
    convolutions = [
        layer for layer in read(tree(tmp_path, train=train, lib___nets=DEEP)).layers if layer.kind == "Conv2D"
    ]
    assert len(convolutions) == 150
    assert all(layer.input_shapes[0] == (None, 64, 64, layer.input_shapes[0][-1]) for layer in convolutions)
    assert [layer.config["filters"] for layer in convolutions[-3:]] == [128, 128, 512]


def test_a_folder_of_that_name_is_no_framework(tmp_path: Path) -> None:
    folder = tree(tmp_path, train=HEAD + "layers.Dense(64)(keras.Input((8,)))", keras___layers="class Dense: pass")
    assert [layer.kind for layer in read(folder).layers] == ["Dense"]


def test_a_module_without_end_is_left(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(60)]
    files = {name: f"from {after} import X\nX = X + 1" for name, after in zip(names, [*names[1:], "m0"], strict=True)}
    folder = tree(tmp_path, train=HEAD + "from m0 import X\nlayers.Dense(X)(keras.Input((8,)))", **files)
    assert dense(read(folder))[0].config["units"] is ...


def run(folder: Path, name: str = "") -> AuditOutcome:
    return audit(AuditOptions((str(folder / name),), mode="source"), lambda _: None)


def test_a_finding_about_shared_code_is_told_once_where_it_costs_most(tmp_path: Path) -> None:
    folder = library(tmp_path)
    tree(folder, other=TRAIN.replace("32, 32", "64, 64"))
    found = [f for f in run(folder).report.findings() if f.layer_class == "Conv2D" and f.dimension == "filters"]
    assert [(f.place.file, f.size) for f in found if f.place] == [(str(folder / "lib" / "blocks.py"), 63)]
    large = [f for f in run(folder / "other.py").report.findings() if f.size == 63]
    assert found[0].saving_ns == large[0].saving_ns


def test_a_known_cost_is_told_before_one_that_a_file_alone_does_not_know(tmp_path: Path) -> None:
    """Two lines about one place, one of which knows nothing, say less than one."""
    nets = "from keras import layers\ndef image(x):\n    return layers.Conv2D(1, 5)(layers.Conv2D(16, 1)(x))\n"
    train = "import keras\nfrom nets import image\nx = keras.Input((32, 32, 64))\nm = keras.Model(x, image(x))\n"
    found = [f for f in run(tree(tmp_path, nets=nets, train=train)).report.findings() if f.size == 1]
    assert [f.why.kind for f in found if f.why is not None] == ["no_gain"]
    alone = [f for f in run(tmp_path, "nets.py").report.findings() if f.size == 1]
    assert [f.why.kind for f in alone if f.why is not None] == ["product_sizes_unknown"]


def test_an_unknown_cost_that_is_a_warning_is_told_whatever_a_file_knows_of_a_small_call(tmp_path: Path) -> None:
    nets = "from keras import layers\ndef head(x):\n    return layers.Dense(64)(layers.Dense(1030)(x))\n"
    trial = "import numpy\nfrom nets import head\nhead(numpy.zeros((4, 16)))\n"
    folder = tree(tmp_path, nets=nets, test_nets=trial)
    found = {f.severity for f in run(folder, "test_nets.py").report.findings() if f.dimension == "units"}
    assert found == {"note"}
    found = {f.severity for f in run(folder).report.findings() if f.dimension == "units" and f.size == 1030}
    assert found == {"warning"}


def test_a_comment_in_the_other_file_counts(tmp_path: Path) -> None:
    quiet = BLOCKS.replace('padding="same")', 'padding="same")  # tcprobe: ignore[TC101]')
    for target in ("", "train.py"):
        outcome = run(library(tmp_path, blocks=quiet), target)
        assert not [f for f in outcome.report.findings() if f.size == 63]
        assert not outcome.report.unused


def test_a_number_that_another_file_uses_too_is_not_changed(tmp_path: Path) -> None:
    train = (
        TRAIN.replace("inputs))", "inputs), n)")
        .replace("Block(63)", "Block(n)")
        .replace("inputs =", "n = 250\ninputs =")
    )
    outcome = run(library(tmp_path, train + "keras.layers.Dense(n)(inputs)\n"))
    assert outcome.report.findings()
    assert not [f for f in outcome.report.findings() if f.fix is not None]


def test_a_shape_is_given_to_inputs_that_another_file_makes(tmp_path: Path) -> None:
    folder = tree(tmp_path, train="import sys\nimport keras\nfrom nets import make\nnet = make(sys.argv)\n", nets=NETS)
    shapes = (InputShape("net", (784,)),)
    (model,) = read_model(read_source(folder / "train.py", None, shapes))
    assert model.layers[0].input_shapes == ((None, 784),)
    assert model.answered == ("net",)


def test_what_rests_on_a_constant_of_another_file_is_not_decided_by_this_one(tmp_path: Path) -> None:
    resting = ["N", "-N", "2 * N", "(3, N)", "[3, N][1]", "max(7, N)", "63 if x else N", "range(N)[7]", "SIZES[1]"]
    train = "from config import N, SIZES\n" + "\n".join(f"f({text})" for text in (*resting, "63"))
    folder = tree(tmp_path, train=train, config="N = 63\nSIZES = [7, 9 * 7]\n")
    source = read_source(folder / "train.py", str(folder))
    nodes = [node.args[0] for node in ast.walk(source.tree) if isinstance(node, ast.Call) and node.func.id == "f"]
    assert [known is not None and known.value for known in map(source.known, nodes)] == [*[False] * len(resting), 63]
