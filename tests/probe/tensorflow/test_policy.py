"""`PolicyRecord`: who has XLA cluster every function."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow.precision import PolicyRecord

ON = "--tf_xla_auto_jit=2"


@pytest.mark.parametrize(
    ("asked", "before", "at_import", "switch", "by"),
    [
        (None, "", "", "", None),
        (None, "", "", "autoclustering", "script"),
        (None, "", ON, "", "script"),
        (None, ON, ON, "", "environment"),
        (None, ON, "", "", None),  # the script took it out again
        (True, ON, ON, "", "tcprobe"),
        (True, ON, ON, "autoclustering", "script"),
        (False, "", ON, "", "script"),
        (None, "", "--tf_xla_auto_jit=-1", "", None),
    ],
)
def test_who_has_xla_cluster_all_functions(
    asked: bool | None, before: str, at_import: str, switch: str, by: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", before)
    record = PolicyRecord(SimpleNamespace(), Gaps(), None, asked)  # type: ignore[arg-type]
    monkeypatch.setenv("TF_XLA_FLAGS", at_import)
    optimizer = SimpleNamespace(get_jit=lambda: switch, get_experimental_options=dict)
    record.on_tensorflow(SimpleNamespace(config=SimpleNamespace(optimizer=optimizer)))
    monkeypatch.setenv("TF_XLA_FLAGS", ON)  # which TensorFlow has read by now
    assert record.described()["clustered_by"] == by
