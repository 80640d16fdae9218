"""A part in its process: what nobody foresaw costs one unit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.gpu import part
from bench.gpu.day import Unit
from bench.gpu.machine import Machine


def test_a_mistake_of_ours_costs_its_unit_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(place: Path, seconds: float) -> None:
        (place / "half").touch()
        raise KeyError(f"{place}/x")

    units = [Unit("wrong", wrong), Unit("right", lambda place, seconds: (place / "whole").touch())]
    made = SimpleNamespace(NAME="made", WHAT="", SHARE=1.0, units=lambda day: units)
    monkeypatch.setattr(part, "PARTS", (made,))
    monkeypatch.setattr(sys, "argv", ["part", "made", str(tmp_path), "60"])
    Machine(None, {}, 0, (), None, None).save(tmp_path / part.MACHINE)
    part.main()
    told = json.loads((tmp_path / "made/wrong/unit.json").read_text(encoding="utf-8"))
    assert (told["status"], told["reason"]) == ("failed", "a fault of the recorder's: KeyError: 'x'")
    assert (tmp_path / "killed/made-wrong-1/half").exists() and (tmp_path / "made/right/whole").exists()
    assert "KeyError" in capsys.readouterr().err
