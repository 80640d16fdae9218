"""What the probe knows of Keras' classes, against the catalogue."""

from __future__ import annotations

from tcprobe.keras.catalogue import class_of
from tcprobe.probe.audit.classes import CUDNN_LAYERS, MAKERS, SETTINGS
from tests.pages.probe_classes import FILE, text


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run python -m tests.pages"


def test_it_names_what_the_audit_of_a_step_asks_about() -> None:
    assert set(MAKERS) == {"Embedding", "LSTM", "GRU", "SimpleRNN"}
    assert all(class_of(name).cudnn for name in CUDNN_LAYERS) and "SimpleRNN" not in CUDNN_LAYERS
    assert {"units", "filters", "groups", "head_dim", "equation"} <= set(SETTINGS)
    assert not {"output_shape", "layer", "name"} & set(SETTINGS)
