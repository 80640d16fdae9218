"""What names tell: the held-out names, the labelled ones, and the table of rules itself."""

from __future__ import annotations

import csv
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.kernels.names import NAME_RULES
from tcprobe.analysis.kernels.rule import NameParts, NameRule, words_of
from tcprobe.analysis.kernels.table import classify
from tests.analysis.kernels.examples import NAMES as LIBRARY_NAMES
from tests.analysis.kernels.grammar_examples import GRAMMAR_NAMES
from tests.support import ROOT, shared

NAMES = LIBRARY_NAMES + GRAMMAR_NAMES
# part of a name -> how the documentation calls it
PLACES = {
    "whole": "whole text",
    "path": "scopes",
    "function": "function",
    "signature": "first arguments",
    "words": "words",
    "argument": "arguments",
    "parameters": "parameters",
}
csv.field_size_limit(2**24)  # a mangled CUTLASS name has 8 kB


def labelled() -> list[dict[str, str]]:
    with shared("samples/kernel_names.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("name", "uses_tc", "precision"), NAMES, ids=[n[:60] for n, _, _ in NAMES])
def test_names_that_libraries_compose(name: str, uses_tc: str, precision: str | None) -> None:
    verdict = classify(name)
    assert (verdict.uses_tc, verdict.precision) == (uses_tc, precision), verdict.evidence


@pytest.mark.parametrize("guard", ["enable_3x_kernel_for_sm9x", "enable_2x_kernel_for_sm89", "enable_sm90_or_later"])
def test_a_carried_product_stays_unknown_where_its_name_is_cut_off(guard: str) -> None:
    assert classify(f"void cutlass::device_kernel<at::cuda::detail::{guard}<cutlass::gemm::ker").uses_tc == "unknown"


def test_no_false_positive_among_the_labelled_names() -> None:
    wrong = [
        r["kernel_name"] for r in labelled() if r["uses_tc"] == "no" and classify(r["kernel_name"]).uses_tc == "yes"
    ]
    assert wrong == []


def test_no_tensor_core_kernel_is_called_one_of_the_cuda_cores() -> None:
    wrong = [
        r["kernel_name"] for r in labelled() if r["uses_tc"] == "yes" and classify(r["kernel_name"]).uses_tc == "no"
    ]
    assert wrong == []


def test_finds_the_labelled_tensor_core_kernels() -> None:
    names = [r["kernel_name"] for r in labelled() if r["uses_tc"] == "yes"]
    found = sum(classify(name).uses_tc == "yes" for name in names)
    assert found >= 0.97 * len(names)


def test_has_a_verdict_for_nearly_all_labelled_names() -> None:
    names = [r["kernel_name"] for r in labelled()]
    decided = sum(classify(name).uses_tc != "unknown" for name in names)
    assert decided >= 0.95 * len(names)


def test_names_that_cannot_tell_stay_unknown() -> None:
    told = [
        r["kernel_name"]
        for r in labelled()
        if r["uses_tc"] == "unknown" and classify(r["kernel_name"]).uses_tc == "yes"
    ]
    assert told == []


def test_precision_agrees_with_the_labels_of_library_kernels() -> None:
    # labels of templates with several types were guessed from the first one found, so only plain names are compared
    rows = [r for r in labelled() if r["uses_tc"] == "yes" and "::" not in r["kernel_name"]]
    same = {"nvfp4": "fp4", "mxfp8": "fp8"}
    wrong = [
        (r["kernel_name"], r["dtype"], found)
        for r in rows
        if r["dtype"] in {"fp16", "bf16", "tf32", "fp8", "int8", "fp64", "nvfp4", "mxfp8"}
        and (found := classify(r["kernel_name"]).precision) not in (None, same.get(r["dtype"], r["dtype"]))
    ]
    assert wrong == []
    told = sum(classify(r["kernel_name"]).precision is not None for r in rows)
    assert told >= 0.9 * len(rows)


def test_no_verdict_that_a_counter_contradicts() -> None:
    with shared("samples/ncu/kernel_truth.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = set()
    for row in rows:
        major, _, minor = row["cc"].partition(".")
        said = classify(row["demangled"], (int(major), int(minor))).uses_tc
        if (said, row["tc_truth"]) in {("yes", "0"), ("no", "1")}:
            wrong.add(row["demangled"])
    assert wrong == set()


@pytest.mark.parametrize(
    "word",
    ["gemma_norm_kernel", "summary_kernel_x", "void gamma_kernel<float>(float*)", "comma_count", "lemma3"],
)
def test_a_token_inside_a_word_is_none(word: str) -> None:
    assert classify(word).uses_tc != "yes"


def test_words_of_a_name_leave_out_template_and_arguments() -> None:
    name = NameParts.of("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 1>(float*)")
    assert name.texts["words"] == "cat_array_batched_copy"
    assert words_of("cunn_SoftMaxForward") == "cunn_soft_max_forward"
    assert words_of("RNNCellXYZNorm") == "rnn_cell_xyz_norm"


def test_every_rule_states_its_claim_and_source() -> None:
    assert len({rule.id for rule in NAME_RULES}) == len(NAME_RULES)
    for rule in NAME_RULES:
        assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", rule.id)
        assert rule.says, rule.id
        assert rule.source, rule.id
        assert rule.sought, rule.id
        for sought in rule.sought:
            assert not sought.pattern.search(""), rule.id


def test_every_rule_is_documented_and_every_documented_rule_exists() -> None:
    text = (ROOT / "docs" / "classification.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `([a-z0-9-]+)` \| (yes|no|unknown) \| ([a-z, ]+) \|", text, re.MULTILINE)
    assert documented == [
        (rule.id, rule.verdict, ", ".join(dict.fromkeys(PLACES[sought.part] for sought in rule.sought)))
        for rule in NAME_RULES
    ]


def test_every_rule_decides_some_name() -> None:
    names = [n for n, _, _ in NAMES] + [
        "void cutlass::Kernel<cutlass::gemm::kernel::B2bGemm<cutlass::gemm::threadblock::B2bMmaPipelined<>>>",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float, cutlass::arch::Sm80>)",
        "my_gemm_tensor_core(half*, half*, float*)",
        "_ZN7cutlass6KernelINS_4gemm6kernel4GemmINS1_4warp11MmaTensorOpINS1_9GemmShapeILi64ELi64ELi32EEE",
    ]
    assert {classify(name).rule for name in names} >= {rule.id for rule in NAME_RULES}


@given(st.text(max_size=300))
def test_any_text_gets_a_verdict(name: str) -> None:
    verdict = classify(name)
    assert verdict.uses_tc in ("yes", "no", "unknown")
    assert (verdict.basis is None) == (verdict.uses_tc == "unknown")
    assert verdict.evidence


@given(st.sampled_from([n for n, _, _ in NAMES]), st.sampled_from(["", "void ", "cudnn_infer_", "x::"]))
def test_a_namespace_or_prefix_never_turns_yes_into_no(name: str, prefix: str) -> None:
    bare, dressed = classify(name).uses_tc, classify(prefix + name).uses_tc
    assert {bare, dressed} != {"yes", "no"}


@pytest.mark.parametrize("rule", NAME_RULES, ids=lambda rule: rule.id)
def test_no_pattern_starts_with_a_run_of_anything(rule: NameRule) -> None:
    """Such a pattern is tried from every place to the end: a name of twice the length takes four times as long."""
    for sought in rule.sought:
        assert not re.search(r"(?:^|\|)\s*(?:\\w|\.)[*+]", sought.pattern.pattern), sought.pattern.pattern


def test_a_long_name_is_classified_in_bounded_time() -> None:
    # nested quantifiers would take minutes on these
    for name in ("a_" * 20_000, "fusion_" * 5_000 + "!", "sm" * 20_000, "f16" * 10_000, "conv1" * 8_000):
        assert classify(name).uses_tc in ("yes", "no", "unknown")
