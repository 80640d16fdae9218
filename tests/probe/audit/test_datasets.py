"""Arrays that stand for Keras' data sets: their shapes, and a file that is there stays as it is."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tcprobe.audit.source.arrays.datasets import SAMPLES
from tcprobe.probe.audit.datasets import IMAGES, NUMBERS, TEXTS, DataSets, arrays
from tcprobe.probe.core.gaps import Gaps

np = pytest.importorskip("numpy")
MODULE = """
import os

def urlretrieve(origin, path):
    raise Exception("there is no network")

def get_file(fname):
    try:
        if not os.path.exists(fname) or os.path.getsize(fname) != len("whole"):
            urlretrieve("https://", fname)
    except (Exception, KeyboardInterrupt):
        if os.path.exists(fname):
            os.remove(fname)
        raise
    return fname

def load_data(path="mnist.npz", **settings):
    with open(get_file(path)) as file:
        return file.read()
"""


def test_a_set_that_is_there_is_loaded_and_one_that_is_not_whole_stays(tmp_path: Path) -> None:
    module = ModuleType("keras.src.datasets.mnist")
    exec(MODULE, vars(module))
    sets, retrieve = DataSets(Gaps()), vars(module)["urlretrieve"]
    sets.hooks()[module.__name__](module)
    assert sets.notes() == []
    there = tmp_path / "mnist.npz"
    there.write_text("whole")
    assert module.load_data(str(there)) == "whole"
    there.write_text("part")
    (x, y), (x_test, y_test) = module.load_data(path=str(there))
    assert there.read_text() == "part"
    assert vars(module)["urlretrieve"] is retrieve
    assert [(a.shape, str(a.dtype)) for a in (x, y, x_test, y_test)] == [
        ((60000, 28, 28), "uint8"), ((60000,), "uint8"), ((10000, 28, 28), "uint8"), ((10000,), "uint8"),
    ]  # fmt: skip
    assert (x.max(), np.unique(y).tolist()) == (255, list(range(10)))
    module.load_data(str(tmp_path / "absent"))
    assert [note.partition(": ")[2] for note in sets.notes()] == ["keras.datasets.mnist"]


@pytest.mark.parametrize("name", ["boston_housing", "california_housing", "mnist", "fashion_mnist"])
def test_sets_have_the_shapes_that_source_mode_reads(name: str) -> None:
    (x, y), (x_test, _) = arrays({}, name)
    assert (x.shape[1:], y.shape[1:]) == SAMPLES[name]
    samples = sum(IMAGES[name][:2]) if name in IMAGES else NUMBERS[name].samples
    assert len(x) + len(x_test) == samples


@pytest.mark.parametrize(
    ("name", "settings", "counts", "longest", "highest", "classes"),
    [
        ("imdb", {}, (25000, 25000), 2494, 88586, 2),
        ("imdb", {"num_words": 10000, "maxlen": 80}, (25000, 25000), 79, 9999, 2),
        ("reuters", {"num_words": 1000, "test_split": 0.5}, (5614, 5614), 2376, 999, 46),
    ],
)
def test_texts_have_words_up_to_the_last_that_was_asked_for(
    name: str, settings: dict[str, float], counts: tuple[int, int], longest: int, highest: int, classes: int
) -> None:
    (x, y), (x_test, _) = arrays({}, name, **settings)
    assert (len(x), len(x_test)) == counts
    assert (len(x[0]), max(x[0]), x[0][0], len(set(y.tolist()))) == (longest, highest, 1, classes)
    assert len(x[1]) == min(TEXTS[name].usual, longest)
