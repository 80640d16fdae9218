"""What constants are worth, and the files that keep them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.calibration.files import (
    ALL,
    Score,
    calibrations,
    file_of,
    kind_of_row,
    read_raw,
    scores,
    split_rows,
    text_of,
)
from tcprobe.cost.constants import load_constants
from tcprobe.cost.measured import Measurement, conv_record, gemm_record
from tcprobe.cost.predict import Target, op_cost
from tcprobe.errors import InputError
from tests.calibration.made import H200, raw_csv, truth


def row(time_ns: float, n: int = 4096, dtype: str = "float16") -> Measurement:
    return Measurement(H200.id, "cublas12", gemm_record(4096, n, 4096, dtype), time_ns)


def test_errors_by_hand() -> None:
    constants = truth()
    own, shipped_cost = (op_cost(row(1.0).record, Target(H200, constants=c)) for c in (constants, None))
    assert own is not None and shipped_cost is not None
    # what was measured replays a graph: the launch that the shipped constants add would be none of it
    ns = [own.timed_ns, shipped_cost.ns + own.launch_ns]
    found = scores([row(ns[0] * 2), row(ns[0])], H200, constants)
    shipped = 50 * (abs(ns[1] / (2 * ns[0]) - 1) + abs(ns[1] / ns[0] - 1))
    assert [(s.kind, s.rows) for s in found] == [("aligned GEMMs", 2), (ALL, 2)]
    assert found[-1].error_pct == pytest.approx(25.0)  # half of it off by one half
    assert found[-1].shipped_pct == pytest.approx(shipped)


def test_rows_that_cannot_be_predicted_do_not_count() -> None:
    assert scores([row(1.0, dtype="complex64")], H200, truth()) == []
    assert scores([], H200, truth()) == []


def test_kinds() -> None:
    image = (8, 28, 28, 64)
    assert kind_of_row(row(1.0), H200) == "aligned GEMMs"
    assert kind_of_row(row(1.0, 4095), H200) == "unaligned GEMMs"
    assert kind_of_row(row(1.0, 4092, "tf32"), H200) == "aligned GEMMs"
    conv = replace(row(1.0), record=conv_record("dgrad", "float16", image, 63, (3, 3)))
    assert kind_of_row(conv, H200) == "unaligned convolutions"


def test_a_quarter_is_held_out_and_a_product_stays_in_its_part(tmp_path: Path) -> None:
    rows = read_raw(raw_csv(tmp_path / "raw.csv"))
    train, held = split_rows(rows)
    assert len(train) + len(held) == len(rows)
    assert 0.18 < len(held) / len(rows) < 0.32
    again = split_rows([replace(r, time_ns=r.time_ns * 2) for r in reversed(rows)])[1]
    assert {repr(r.record) for r in again} == {repr(r.record) for r in held}
    assert not {repr(r.record) for r in train} & {repr(r.record) for r in held}
    assert {kind_of_row(r, H200) for r in held} == {kind_of_row(r, H200) for r in rows}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "tcprobe" / "calibration"


def test_a_file_holds_constants_and_how_they_came_about(folder: Path) -> None:
    assert calibrations() == []
    folder.mkdir(parents=True)
    path = file_of(H200.id)
    assert path == folder / "h200-sxm.json"
    path.write_text(text_of(truth(), Score(ALL, 90, 4.125, 41.0), "2026-11-21", 300), encoding="utf-8")
    assert load_constants(H200) == truth()
    (found,) = calibrations()
    assert (found.path, found.constants) == (path, truth())
    assert (found.date, found.error_pct, found.shipped_pct, found.rows) == ("2026-11-21", 4.12, 41.0, 300)


def test_what_a_file_does_not_say_is_unknown(folder: Path) -> None:
    folder.mkdir(parents=True)
    body = json.loads(truth().to_json())
    for facts in ({}, {"calibration": 3}, {"calibration": {"date": "soon", "error_pct": "low", "rows": True}}):
        file_of(H200.id).write_text(json.dumps(body | facts), encoding="utf-8")
        (found,) = calibrations()
        assert (found.date, found.error_pct, found.shipped_pct, found.rows) == (None, None, None, None)
    (folder / "notes.json").write_text("{}", encoding="utf-8")  # no GPU is called so
    assert len(calibrations()) == 1


def test_a_damaged_file_is_one_clear_error(folder: Path) -> None:
    folder.mkdir(parents=True)
    file_of(H200.id).write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"h200-sxm\.json: not JSON"):
        calibrations()
