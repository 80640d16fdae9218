"""The first screen: of real profiles as files that a person has read, and what holds of every one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from tcprobe.analysis.screen.flow import drawn_rows
from tcprobe.flows.report import make_report
from tcprobe.report.run import verdict
from tcprobe.report.run.advice import detail, headline
from tcprobe.report.run.bar import MOST_ROWS, labelled, shares_of
from tcprobe.report.run.screen import MOST_LINES, screen_of, verdict_of
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import Answer, Bar, BarRow, FirstScreen, RowKind, VerdictWord
from tcprobe.schema.statement import say
from tests.report.builders import PROFILES, gpu_profile, rendered, run
from tests.support import ROOT, shared

SAMPLES = (
    *(f"xplane/{name}.xplane.pb" for name in (
        "jax08_mi300_attention", "jax08_mi300_gemm", "tf24_p100_alexnet_fp32", "tf24_t4_alexnet_fp32",
        "tf24_t4_autotuning_step", "tf24_v100_alexnet_fp32", "tf24_v100_idle_0.07pct", "tf25_turing_busy_88pct",
        "tf25_turing_chess_fp32", "tf25_turing_idle",
    )),
    *(f"nsys/{name}.sqlite" for name in (
        "h100x2_bf16_after_nsys2026", "h100x2_bf16_before_nsys2026", "h100x2_fp32_ffma_nsys2026",
        "rtx3090_tensorrt_nsys2023.4", "titanrtx_fp16_inference_nsys2022", "v100_mpi_rank1",
    )),
    *("dlprof/pytorch_1.8", "dlprof/a100x4_pytorch_1.7_summary.csv", "dlprof/v100_tf1_0.13_detailed.csv"),
    *(f"dlprof/simple_0.16_json/{gpu}_roberta-large_128-32.json" for gpu in ("a100-40gb-400w", "v100-16gb-300w")),
    *(f"ncu/{name}.raw.csv" for name in ("cutlass_int8_a100", "elementwise_h100", "mlp_t4_v2")),
    *(f"nsys_stats/{name}.csv" for name in (
        "h100x2_mfu_before_cuda_gpu_kern_sum", "new_cuda_gpu_kern_sum", "new_cuda_gpu_trace",
    )),
    "kineto/a100_nccl.json.gz",
)  # fmt: skip
LONG = (
    *("xplane/tf22_8xv100_bert_step0.xplane.pb", "nsys/rtx3090_tensorrt_nsys2023.1.sqlite"),
    *(f"nsys/v100_mpi_rank{rank}.sqlite" for rank in (2, 3, 4, 6)),
    *("nsys_stats/old_gpukernsum.csv", "nsys_stats/old_gputrace.csv"),
    *(f"kineto/{name}.json.gz" for name in (
        "a100_alexnet_cudnn8_tf32", "a100_cupti_counters", "a100_train_control", "a100_vit_sampled", "b300_moe_large",
        "b300_moe_top1", "h100_owlv2_bf16", "h100_qwen_bf16", "v100_resnet50_fp32",
    )),
)  # fmt: skip
FIXTURES = (
    *("h100/jax_bfloat16_odd", "h100/jax_float32", "h100/jax_tf32", "xplane/cpu_xla", "xplane/two_gpus"),
    *("xplane/old_schema", "xplane/xla"),
    *(f"cpu_runs/{name}" for name in ("gan", "gan_bad", "fit", "eager")),
)
Compare = Callable[[str, str], None]


def lines_of(profile: Profile, width: int | None) -> list[str]:
    return ["".join(part.text for part in line.parts).rstrip() for line in screen_of(profile, width).lines]


def holds(profile: Profile) -> None:
    """Check what holds of every first screen."""
    screen = profile.screen
    assert screen is not None and screen.answer.word in get_args(VerdictWord)
    lines = lines_of(profile, 80)
    assert len(lines) <= MOST_LINES and max(map(len, lines)) <= 80
    assert "None" not in " ".join(lines) and "nan" not in " ".join(lines).split()
    bar = screen.bar
    if bar is None:
        assert all(item.saves_ns is None or item.likely for item in screen.items)  # predicted
        return
    assert sum(row.ns for row in bar.rows) == pytest.approx(bar.total_ns)
    assert sum(row.pct for row in bar.rows) == pytest.approx(100.0)
    for item in screen.items:
        drawn = [row.ns for row in bar.rows if row.kind in (*drawn_rows(item.advice), "kernels")]
        assert item.saves_ns is None or 0 < item.saves_ns <= max(drawn) * 1.000001


def compared(profile: Profile, golden: Compare, name: str) -> None:
    holds(profile)
    narrow, wide = ("\n".join(lines_of(profile, width)) for width in (80, 160))
    more = "" if wide == narrow else f"\n\n(160 columns)\n\n{wide}"
    golden(f"screens/{name.replace('/', '_')}.txt", f"{narrow}{more}\n")


@pytest.mark.parametrize(
    "sample", [*SAMPLES, *(pytest.param(one, marks=pytest.mark.long) for one in LONG)], ids=lambda path: Path(path).name
)
def test_the_screen_of_a_sample(sample: str, golden: Compare) -> None:
    compared(make_report(shared(f"samples/{sample}")), golden, sample)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_the_screen_of_a_fixture(fixture: str, golden: Compare) -> None:
    path = ROOT / "tests" / "fixtures" / fixture
    compared(make_report(path if path.is_dir() else path.with_suffix(".xplane.pb")), golden, fixture)


@pytest.mark.parametrize("name", sorted(set(PROFILES) - {"summary_only"}))
def test_what_holds_of_every_screen(name: str) -> None:
    holds(PROFILES[name]())


def test_a_terminal_gets_the_screen_alone_and_a_pipe_the_tables_too() -> None:
    screen = "\n".join(lines_of(gpu_profile(), None))
    whole = rendered("text", run(gpu_profile()))
    assert whole.startswith(screen) and "\nCostliest ops off" in whole
    assert rendered("text", run(gpu_profile(), brief=True)).rstrip("\n") == screen


def test_a_page_has_the_same_screen_untouched_by_markup() -> None:
    screen = "\n".join(lines_of(gpu_profile(), None))
    assert f"```text\n{screen}\n```" in rendered("markdown", run(gpu_profile()))


def test_json_has_the_word_the_sentence_and_the_bar() -> None:
    import json

    found = json.loads(rendered("json", run(gpu_profile())))
    assert found["verdict"]["word"] == "PARTLY" and "PARTLY" in found["verdict"]["text"]
    assert sum(row["ns"] for row in found["bar"]["rows"]) == pytest.approx(found["bar"]["total_ns"])


def test_of_many_rows_the_largest_of_products_stands() -> None:
    """Shares of 5, 30, 25, 22 and 18 %: of four rows, one is what the verdict speaks of, and the last holds two."""
    shares: dict[RowKind, float] = {"used": 5.0, "layout": 18.0, "communication": 25.0, "others": 30.0, "idle": 22.0}
    bar = Bar("step", 100.0, tuple(BarRow(kind, pct, pct) for kind, pct in shares.items()))
    found = FirstScreen(Answer("GOOD", say("all_used")), bar)
    told = [(label, round(row.pct)) for label, row in labelled(found, bar, 4)]
    assert told == [("on Tensor Cores", 5), ("between GPUs", 25), ("other kernels", 30), ("the rest", 40)]


def test_small_rows_that_have_the_name_of_one_are_of_its_kind() -> None:
    bar = Bar("step", 100.0, (BarRow("used", 0.9, 0.9), BarRow("copy", 0.02, 0.02), BarRow("idle", 99.08, 99.08)))
    _, (label, row) = labelled(FirstScreen(Answer("WAITING", say("all_used")), bar), bar, MOST_ROWS)
    assert (label, row.kind) == ("on Tensor Cores, rest", "used")


def test_every_item_has_a_title_that_fits_its_column() -> None:
    for name in PROFILES:
        for item in PROFILES[name]().advice:
            title = headline(item, 50)
            assert title and title[0] != " " and "None" not in title + detail(item)


def test_every_word_and_kind_has_its_words() -> None:
    from tcprobe.rules.run.waiting import WAYS
    from tcprobe.schema.screen import ROW_KINDS, AnswerKind, LimitKind
    from tcprobe.schema.waits import HOST_WORK

    assert set(WAYS) == set(HOST_WORK)
    assert set(verdict.ROW_WORDS) == set(ROW_KINDS)
    assert set(verdict._ANSWERS) == set(get_args(AnswerKind))
    assert set(verdict._LIMITS) == set(get_args(LimitKind))


def test_a_share_in_a_sentence_is_that_of_its_row() -> None:
    """38.47 % is rounded up, so that all rows add up to 100: the sentence says the same of its row."""
    shares: dict[RowKind, float] = {"used": 14.4, "misaligned": 38.47, "others": 20.93, "idle": 26.2}
    bar = Bar("step", 100.0, tuple(BarRow(kind, pct, pct) for kind, pct in shares.items()))
    found = FirstScreen(Answer("MISALIGNED", say("misaligned", pct=38.47, of="step")), bar)
    assert shares_of(bar, labelled(found, bar, 4)) == ["14 %", "39 %", "21 %", "26 %"]
    assert verdict_of(found) == "Tensor Cores: MISALIGNED. Odd sizes slow matrix ops that take 39 % of the step."


def test_where_there_are_no_tensor_cores_no_row_asks_of_them() -> None:
    bar = Bar("step", 100.0, (BarRow("matmul", 60.0, 60.0), BarRow("unknown", 40.0, 40.0)))
    found = FirstScreen(Answer("NOT APPLICABLE", say("not_nvidia", vendor="AMD")), bar)
    assert [label for label, _ in labelled(found, bar, 4)] == ["matrix ops", "unknown kernels"]


@pytest.mark.long
def test_a_rest_of_much_gives_way_to_the_reason_of_the_last_item() -> None:
    """Of its rows four would stand, the last of 35 %, beside three items with their reasons."""
    lines = lines_of(make_report(shared("samples/kineto/a100_train_control.json.gz")), 80)
    assert any(line.startswith("  no kernel or copy") for line in lines) and len(lines) <= MOST_LINES
