"""An audit of many files keeps no parsed file longer than it needs."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from tcprobe.flows.audit.flow import audit
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.source.source import Follow, Source

TEXT = """
import keras
keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(4096), keras.layers.Dense(16, dtype="float32")])
"""


def test_parsed_files_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        (tmp_path / f"model{number}.py").write_text(TEXT, encoding="utf-8")
    seen: list[weakref.ref[Source]] = []
    read = Source.read

    def noted(path: Path | str, follow: Follow, folder: str | None = None) -> Source:
        source = read(path, follow, folder)
        seen.append(weakref.ref(source))
        return source

    monkeypatch.setattr(Source, "read", noted)
    outcome = audit(AuditOptions((str(tmp_path),), mode="source"), lambda _: None)
    gc.collect()
    assert (len(outcome.report.audited), len(seen)) == (12, 12)
    assert sum(ref() is not None for ref in seen) <= 4, "rules.bad remembers the sizes of four models"
