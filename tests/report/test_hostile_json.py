"""JSON and numbers of others, however absurd: what is accepted prints in every format, what is not is named."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tcprobe.cost.constants import Constants
from tcprobe.errors import InputError, MeasurementFailed
from tcprobe.flows.audit.options import read_baseline
from tcprobe.flows.report import make_report
from tcprobe.jsonfile import whole
from tcprobe.readers.xspace.text import parse_shapes, program_id
from tcprobe.report import RenderSpec, renderers
from tcprobe.report.csv import write_table
from tcprobe.report.document import ReportSpec
from tcprobe.report.run.document import RunDocument
from tcprobe.schema.model import Place
from tests.fixtures import dlprof
from tests.readers.run_folder.test_folder import OP, graph, make_run

HERE: Final = "@here@"
LONG: Final = "9" * 5000
VALUES: Final = {
    "5,000 digits": LONG,
    "4,000 digits": "9" * 4000,
    "beyond float": "1e999",
    "largest float": "1e308",
    "least float": "5e-324",
    "NaN": "NaN",
    "infinity": "-Infinity",
    "minus zero": "-0.0",
    "2**63": str(2**63),
    "2**63 - 1": str(2**63 - 1),
    "-2**63": str(-(2**63)),
    "negative": "-1",
    "text": '"7"',
    "digits of another script": '"\\u0663\\u00b2"',
    "null characters": '"\\u0000"',
    "half a character": '"\\ud800"',
    "bool": "true",
    "list": "[[]]",
    "100 levels": "[" * 90 + "]" * 90,
    "10,000 levels": "[" * 10_000 + "]" * 10_000,
}


def hostile_run(folder: Path, value: str) -> Path:
    """Return a run folder that holds a value, as JSON writes it, wherever a number belongs."""
    window = {"first_step": HERE, "last_step": HERE, "start_ns": HERE, "stop_ns": HERE}
    parts = [{"key": 1, "name": "step", "calls_per_step": HERE}, {"key": HERE, "name": "b", "calls_per_step": 1}]
    phases = [{"first_step": 0, "last_step": HERE, "parts": parts, "basis": HERE}]
    shapes = {"input_shapes": [[HERE, 60], [60, HERE]], "output_shapes": [[HERE, HERE]], "repeats": HERE}
    op = {**OP, **shapes, "calls_per_step": HERE, "attributes": {"strides": [1, HERE]}}
    documents: dict[str, dict[str, Any]] = {
        "probe/graph.json": graph(op, {**OP, "op": "other/MatMul"}),
        "probe/probe.json": {"window": window, "phases": phases, "steps": {"count": HERE, "period": HERE}},
    }
    home = make_run(
        folder, exit_code=HERE, partial=True, window=window, wall_ns=HERE, peak_gpu_memory_bytes=HERE,
        iter_start=HERE, iter_stop=HERE, gpus=[{"name": "A100", "compute_capability": HERE}], started=HERE,
        profiler={"name": "dlprof", "version": HERE},
    )  # fmt: skip
    documents["run.json"] = json.loads((home / "run.json").read_text(encoding="utf-8"))
    for name, document in documents.items():
        (home / name).write_text(json.dumps(document).replace(f'"{HERE}"', value), encoding="utf-8")
    plain = value.strip('"')
    (home / "probe" / "steps.csv").write_text(f"step,start_ns,kind\n0,1,x\n{plain},{plain},x\n2,5,x\n", "utf-8")
    (home / "probe" / "metrics.csv").write_text(f"step,name,value,unit\n{plain},loss,{plain},\n", "utf-8")
    return home


def printed(path: Path) -> dict[str, str]:
    """Return a report in each format, and its tables."""
    document, found = RunDocument(make_report(path), ReportSpec()), {}
    for renderer in renderers("run"):
        out = io.StringIO()
        if renderer.name not in ("csv", "perfetto"):
            renderer.render(document, RenderSpec(), out)
            found[renderer.name] = out.getvalue()
    for table in document.tables():
        out = io.StringIO()
        write_table(table, out)
        found[f"{table.name}.csv"] = out.getvalue()
    return found


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_a_run_folder_holds_is_printed_in_every_format(tmp_path: Path, value: str) -> None:
    texts = printed(hostile_run(tmp_path / "run", value))
    json.loads(texts["json"], parse_constant=pytest.fail)
    assert set(texts) >= {"text", "markdown", "json", "summary.csv"}
    assert "gemms.csv" in texts or "nested deeper than 100 levels" in texts["text"]
    assert not [name for name, text in texts.items() if re.search(r"\d{300}", text)]


@pytest.mark.parametrize("value", ["5,000 digits", "2**63", "NaN", "negative", "text", "10,000 levels"])
def test_what_dlprofs_json_holds_is_read_or_named(tmp_path: Path, value: str) -> None:
    source = Path(dlprof.__file__).parent / "tf2_1.8"
    for name in ("dlprof_kernel.json", "dlprof_summary.json"):
        held = json.loads((source / name).read_text(encoding="utf-8"))
        text = json.dumps(_every_number(held)).replace(f'"{HERE}"', VALUES[value])
        (tmp_path / name).write_text(text, encoding="utf-8")
    try:
        assert printed(tmp_path)
    except MeasurementFailed as error:
        assert value == "NaN"  # as pandas writes what is not there
        assert "no kernel was recorded" in error.message
    except InputError as error:
        assert str(tmp_path) in error.message
        assert len(error.message) < 400


def _every_number(held: Any) -> Any:
    if isinstance(held, dict):
        return {key: _every_number(value) for key, value in held.items()}
    if isinstance(held, list):
        return [_every_number(value) for value in held]
    return HERE if isinstance(held, int | float) and not isinstance(held, bool) else held


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_baseline_is_read_or_named(tmp_path: Path, value: str) -> None:
    file = tmp_path / "baseline.json"
    for text in (
        f'{{"version": {value}, "findings": []}}',
        f'{{"version": 1, "findings": [{{"code": "TC101", "file": "a.py", "count": {value}}}]}}',
        f'{{"version": 1, "findings": [{{"code": "TC101", "file": "a.py", "size": {value}}}]}}',
        value,
    ):
        file.write_text(text, encoding="utf-8")
        try:
            read_baseline(file)
        except InputError as error:
            assert str(file) in error.message
            assert len(error.message) < 400 + len(value) * (len(value) < 200)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_calibration_is_refused_by_name(value: str) -> None:
    for text in (value, f'{{"format": "tcprobe-constants", "version": {value}}}'):
        with pytest.raises(InputError, match=r"a100\.json: "):
            Constants.from_json(text, "a100.json")


def test_digits_in_names_and_shapes_are_bounded() -> None:
    assert parse_shapes(f"(float[{LONG},3];float[3,²])")[1] in (None, "[[null, 3], [3, null]]")
    assert parse_shapes(f"(float[{LONG},3])") == ("float32", "[[null, 3]]")
    assert program_id(f"jit_step({LONG})") is None
    assert [whole(text) for text in (LONG, "²", "7")] == [None, None, 7]
    assert Place.parse(f"a.py:{LONG}") is None
    assert Place.parse("a.py:²") is None
