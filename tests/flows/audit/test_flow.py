"""The flow of an audit in source mode: what follows from the rules' findings, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.errors import TcprobeError, UsageError
from tcprobe.flows.audit.fix import diff_of, fixes_of
from tcprobe.flows.audit.flow import AuditOutcome, audit
from tcprobe.flows.audit.models import GPUS_HIDDEN
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.schema.finding import SEVERITIES

HEAD = "import keras\nfrom keras import layers\n\n"
MODEL = HEAD + (
    "model = keras.Sequential([\n"
    "    keras.Input((64, 64, 64)),\n"
    "    layers.Conv2D(255, 3, padding='same'),\n"
    "    layers.Conv2D(127, 3, padding='same'),\n"
    "    layers.Conv2D(128, 3, padding='same'),\n"
    "])\n"
)


def audited(folder: Path, text: str = MODEL, options: AuditOptions | None = None) -> AuditOutcome:
    path = folder / "m.py"
    path.write_text(text, encoding="utf-8")
    asked = options or AuditOptions((), dtype="float16", batch_size=256, xla=False)
    said: list[str] = []
    return audit(replace(asked, files=(str(path),), mode="source"), said.append)


def test_findings_come_costliest_first_with_severity_and_share(tmp_path: Path) -> None:
    (model,) = audited(tmp_path).report.audited
    savings = [f.saving_ns.mid for f in model.findings if f.saving_ns]
    assert {f.size for f in model.findings[:2]} == {255, 127}
    assert savings == sorted(savings, reverse=True)
    assert all(f.severity in SEVERITIES for f in model.findings)


def test_all_suggestions_together_save_no_more_than_each_alone_and_more_than_one(tmp_path: Path) -> None:
    (model,) = audited(tmp_path).report.audited
    each = [f.saving_ns.mid for f in model.findings if f.saving_ns]
    assert model.total_saving_ns is not None
    assert model.step_ns is not None
    assert max(each) < model.total_saving_ns.mid < model.step_ns.mid
    # Between the two layers stands one size of each: changed together, what one gains the other does not gain again.
    assert model.total_saving_ns.mid <= sum(each) * 1.01


def test_what_costs_nothing_is_not_among_all_suggestions(tmp_path: Path) -> None:
    """60 filters cost nothing in TF32, and 64 would take time."""
    text = (
        "import keras\nfrom keras import layers\nm = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(60, 3),"
        "layers.Conv2D(60, 3), layers.Flatten(), layers.Dense(510), layers.Dense(8)])\n"
    )
    (model,) = audited(tmp_path, text, AuditOptions((), batch_size=256)).report.audited
    (one,) = [f.saving_ns for f in model.findings if f.saving_ns and f.saving_ns.mid > 0]
    assert model.total_saving_ns is not None
    assert model.total_saving_ns.mid == pytest.approx(one.mid, rel=0.1)


def test_a_file_that_hides_all_gpus_gets_notes_and_is_told_why(tmp_path: Path) -> None:
    (model,) = audited(tmp_path, f"import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n{MODEL}").report.audited
    (plain,) = audited(tmp_path).report.audited
    assert {f.severity for f in model.findings} == {"note"} != {f.severity for f in plain.findings}
    assert GPUS_HIDDEN in model.notes and GPUS_HIDDEN not in plain.notes


@pytest.mark.parametrize(
    ("off", "dtype", "step_is_of"), [(False, None, "tf32"), (True, None, "float32"), (True, "tf32", "tf32")]
)
def test_float32_is_predicted_as_the_code_lets_it_run(
    tmp_path: Path, off: bool, dtype: str | None, step_is_of: str
) -> None:
    text = f"import tensorflow as tf\ntf.config.experimental.enable_tensor_float_32_execution({not off})\n{MODEL}"
    options = AuditOptions((), batch_size=256, xla=False)
    (model,) = audited(tmp_path, text, replace(options, dtype=dtype)).report.audited
    (asked,) = audited(tmp_path, MODEL, replace(options, dtype=step_is_of)).report.audited
    assert model.step_ns == asked.step_ns
    assert model.tf32_off == (off and dtype is None)


def test_what_is_not_selected_is_in_neither_list_and_saves_nothing(tmp_path: Path) -> None:
    options = AuditOptions((), dtype="float16", batch_size=256, ignore=("TC1",))
    (model,) = audited(tmp_path, options=options).report.audited
    assert not [f for f in (*model.findings, *model.suppressed) if f.code.startswith("TC1")]
    assert model.total_saving_ns is None


def test_a_comment_is_not_unused_because_its_rule_was_not_selected(tmp_path: Path) -> None:
    text = MODEL.replace("255, 3, padding='same'),", "255, 3, padding='same'),  # noqa: TC101")
    options = AuditOptions((), dtype="float16", batch_size=256, ignore=("TC1",))
    assert audited(tmp_path, text, options).report.unused == ()
    outcome = audited(tmp_path, text)
    assert [f.size for f in outcome.report.audited[0].suppressed] == [255]
    assert fixes_of(outcome)
    assert "255" not in diff_of(outcome).replace("(255, 3, padding='same'),  # noqa", "")


def test_without_tf32_no_size_matters(tmp_path: Path) -> None:
    outcome = audited(tmp_path, options=AuditOptions((), dtype="float32", batch_size=256, xla=False))
    assert {f.severity for f in outcome.report.findings()} == {"note"}
    assert outcome.exit_code == 0
    outcome = audited(tmp_path, options=AuditOptions((), dtype="tf32", batch_size=256, xla=False))
    assert outcome.exit_code == 1


def test_precision_is_judged_in_files_without_layers(tmp_path: Path) -> None:
    text = "import tensorflow as tf\ntf.keras.mixed_precision.experimental.set_policy('mixed_float16')\n"
    assert {f.code for f in audited(tmp_path, text).report.findings()} == {"TC208"}


def test_a_file_that_is_none_of_ours_is_not_in_the_report(tmp_path: Path) -> None:
    assert audited(tmp_path, "x = 255\n").report.audited == ()


def test_sources_are_kept_only_of_what_can_be_fixed(tmp_path: Path) -> None:
    assert list(audited(tmp_path).sources) == [str(tmp_path / "m.py")]
    assert not audited(tmp_path, MODEL.replace("255", "256").replace("127", "128")).sources


def test_an_unknown_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no GPU called"):
        audited(tmp_path, options=AuditOptions((), target_gpu="z9"))


def test_the_only_file_fails_and_of_several_the_rest_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n", encoding="utf-8")
    options = AuditOptions((str(broken),), mode="source")
    with pytest.raises(TcprobeError, match=r"broken\.py"):
        audit(options, print)
    (tmp_path / "m.py").write_text(MODEL, encoding="utf-8")
    outcome = audit(replace(options, files=(str(tmp_path),)), print)
    assert [path for path, _ in outcome.report.failed] == [str(broken)]
    assert "broken.py" not in outcome.report.failed[0][1]
    assert (outcome.exit_code, len(outcome.report.audited)) == (2, 1)


def test_what_a_test_finds_in_another_file_is_a_note(tmp_path: Path) -> None:
    for folder in ("pkg", "pkg/tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    net = MODEL.replace("model = ", "def net(n):\n  return ").replace("255", "n")
    (tmp_path / "pkg" / "net.py").write_text(net, "utf-8")
    (tmp_path / "pkg" / "tests" / "test_net.py").write_text("from pkg.net import net\n\nmodel = net(255)\n", "utf-8")
    asked = AuditOptions((str(tmp_path),), dtype="float16", batch_size=256, xla=False, mode="source")
    (tested,) = (one for one in audit(asked, [].append).report.audited if one.label.startswith("test_"))
    assert {finding.severity for finding in tested.findings} == {"note"}
