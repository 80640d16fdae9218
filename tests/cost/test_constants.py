"""Calibration files: what is written is read, and a damaged one is said to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.fit import text_of
from tcprobe.cost.constants import (
    OTHER_VERSION,
    RELATIVE,
    SAME_CHIP,
    Constants,
    Multiplier,
    RunsThrough,
    calibration_folder,
    fitted,
    load_constants,
    shipped,
    widened,
)
from tcprobe.errors import InputError, UnsupportedVersion, WrongFormat
from tcprobe.hardware import find_gpu, load_gpus
from tcprobe.schema.provenance import Stack
from tests.support import ROOT

THROUGH: tuple[RunsThrough, ...] = ("serving", "framework")
T4 = find_gpu("t4")
OWN = replace(shipped()["t4"], basis="calibrated", multipliers={"gemm:tc16:odd": Multiplier(0.3, 0.4, 0.5)})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "t4.json").write_text(OWN.to_json(), encoding="utf-8")
    assert load_constants(T4, tmp_path) == OWN


def test_a_class_of_older_files_keeps_its_multiplier(tmp_path: Path) -> None:
    nt = Multiplier(0.2, 0.25, 0.3)
    older = replace(OWN, multipliers={"gemm:tc16:output": nt})
    (tmp_path / "t4.json").write_text(older.to_json(), encoding="utf-8")
    found = load_constants(T4, tmp_path)
    assert found is not None and found.multipliers == {"gemm:tc16:nt_odd": nt}


def test_a_file_from_before_launches_were_told_apart() -> None:
    body = json.loads(OWN.to_json())
    del body["stack"]
    for rate in body["rates"].values():
        del rate["launch_ns"]
    body["rates"]["tc16"]["t0_ns"], body["rates"]["fp32"]["t0_ns"] = 8000.0, 1500.0
    found = Constants.from_body(body)
    assert found.stack == Stack("unknown", "")
    # 2.5 us are the empty kernel's own
    assert (found.rates["tc16"].t0_ns, found.rates["tc16"].launch_ns) == (2500.0, 5500.0)
    assert (found.rates["fp32"].t0_ns, found.rates["fp32"].launch_ns) == (1500.0, 0.0)


def test_a_gpu_that_was_not_measured_has_none(tmp_path: Path) -> None:
    assert load_constants(T4, tmp_path) is None
    assert load_constants(T4, tmp_path / "absent") is None


def test_the_folder_follows_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert calibration_folder() == tmp_path / "tcprobe" / "calibration"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert calibration_folder() == tmp_path / ".config" / "tcprobe" / "calibration"


def damaged(**changed: Any) -> str:
    return json.dumps(json.loads(OWN.to_json()) | changed)


def with_rate(**changed: Any) -> str:
    body = json.loads(OWN.to_json())
    body["rates"]["tc16"] |= changed
    return json.dumps(body)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": "other"}',
        damaged(rates={}),
        damaged(stack={"kind": "other", "name": ""}),
        damaged(stack=3),
        damaged(rates=None),
        damaged(basis="guessed"),
        damaged(conv={"tc16:forward": [1.2, 1.0, 1.1]}),
        damaged(multipliers={"gemm:tc16:odd": {"low": 0.5, "mid": 0.4, "high": 0.6}}),
        damaged(gpu="a100-sxm-80"),
        with_rate(emax=-1),
        with_rate(emax="fast"),
        with_rate(emax=True),
        with_rate(t0_ns=float("nan")),
        with_rate(tiles=[]),
        with_rate(tiles=[[0, 128, 1.0]]),
        with_rate(tiles=[[128, 128]]),
        with_rate(spread=[1.0, 1.0]),
        with_rate(l2_speed=0.5),
    ],
)
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t4.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WrongFormat) as caught:
        load_constants(T4, tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint is not None and "tcprobe calibrate" in caught.value.hint


def test_a_later_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "t4.json").write_text(damaged(version=99), encoding="utf-8")
    with pytest.raises(UnsupportedVersion, match="version 99"):
        load_constants(T4, tmp_path)


def test_what_is_no_text_or_no_file(tmp_path: Path) -> None:
    (tmp_path / "t4.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WrongFormat, match="not a text file"):
        load_constants(T4, tmp_path)
    (tmp_path / "v100-sxm2.json").mkdir()
    with pytest.raises(InputError):
        load_constants(find_gpu("v100-sxm2"), tmp_path)


@pytest.mark.parametrize("gpu", sorted(shipped()))
def test_what_ships_is_sound(gpu: str) -> None:
    constants = shipped()[gpu]
    assert Constants.from_json(constants.to_json()) == constants
    assert constants.gpu == gpu == find_gpu(gpu).id
    for rate in constants.rates.values():
        assert 0 < rate.emax <= 1 and 0 < rate.bwf <= 1
        assert max(e for _, _, e in rate.tiles) == 1.0
        assert 1500 <= rate.t0_ns < 10_000


@pytest.mark.parametrize(
    ("gpu", "owner"),
    [
        ("a100-sxm-40", "a100-sxm-80"),
        ("a30", "a100-sxm-80"),
        ("h100-pcie", "h100-sxm"),
        ("gh200", "h200-sxm"),
        ("b200", "b200"),
        ("gb300", "gb300"),
        ("rtx4090", "l40s"),
        ("rtx3090", "a100-sxm-80"),
        ("rtx5090", "rtxpro6000bw-server"),
        ("rtx2080ti", "t4"),
        ("v100-pcie", "v100-sxm2"),
    ],
)
def test_who_stands_in_for_whom(gpu: str, owner: str) -> None:
    serving, framework = (fitted(find_gpu(gpu), "tc16", through).provenance for through in THROUGH)
    assert (serving.measured_on, serving.framework_of, framework.measured_on) == (owner, None, owner)
    own = owner == "a100-sxm-80"  # measured through a framework too
    assert framework.framework_of == (None if own else "a100-sxm-80")
    assert framework.borrowed == ({"gpu": owner} if gpu != owner else {}) | ({} if own else {"stack": "a100-sxm-80"})


def test_the_further_the_relative_the_wider_the_range() -> None:
    def width(gpu: str) -> float:
        low, _, high = fitted(find_gpu(gpu), "tc16").rate.spread
        return high / low

    own = width("a100-sxm-80")
    low, _, high = shipped("framework")["a100-sxm-80"].rates["tc16"].spread
    assert own == pytest.approx(high / low * OTHER_VERSION**2)
    assert width("a100-sxm-40") == pytest.approx(own * SAME_CHIP**2)
    assert width("a30") == pytest.approx(own * RELATIVE**2)
    assert widened((0.5, 1.0, 2.0), 2.0) == (0.25, 1.0, 4.0)
    few, many = (fitted(find_gpu("a100-sxm-80"), family).rate.spread for family in ("tf32", "tc16"))
    assert few[0] <= many[0] < many[2] <= few[2]  # 94 TF32 products tell no narrower range than 1,337 of 16 bits


@pytest.mark.parametrize("gpu", load_gpus(), ids=lambda gpu: gpu.id)
def test_every_gpu_and_family_has_constants(gpu: Any) -> None:
    for family in ("tc16", "tf32", "fp32", "fp8", "int8"):
        found = fitted(gpu, family)
        assert set(found.conv) >= {"forward", "dgrad", "wgrad"}
        assert found.rate.tiles


def test_the_file_is_as_the_fit_prints_it() -> None:
    text = (ROOT / "tcprobe" / "cost" / "rates.json").read_text(encoding="utf-8")
    gpus = json.loads(text)["gpus"]
    assert text_of(gpus) == text
    fitted_rows = {(gpu["gpu"], gpu["stack"]["kind"] == "framework"): gpu["calibration"]["rows"] for gpu in gpus}
    assert len(fitted_rows) == len(gpus)
    assert fitted_rows.keys() == {(gpu, t == "framework") for t in THROUGH for gpu in shipped(t)}
