"""What a range's name tells, by domain, and what SQL cuts off PyTorch's."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.gemm.record import parse_json_shapes
from tcprobe.readers.nsys.names import LONGEST, RangeName, cut_sql, name_of_range
from tests.support import SHARED

NSYS = SHARED / "samples" / "nsys"

TEXTS = {
    "aten::mm": ("aten::mm", None, None),
    "aten::mm, op_id = 3": ("aten::mm", None, None),
    "aten::addmm, seq = 48286, op_id = 1002091": ("aten::addmm", None, 48286),
    "aten::mm, seq = 12, op_id = 3, sizes = [[1, 2], [3, 4]]": ("aten::mm", "[[1, 2], [3, 4]]", 12),
    "aten::mm, seq = 12, sizes = [[1, 2], [2, 4]]": ("aten::mm", "[[1, 2], [2, 4]]", 12),  # before 1.9
    "aten::mm, op_id = 3, sizes = [[8], []], input_op_ids = [(2,0), (0,-1)]": ("aten::mm", "[[8], []]", None),
    "FSDP::pre_forward (blocks.9), op_id = 993930": ("FSDP::pre_forward (blocks.9)", None, None),
    "ncclSend": ("ncclSend", None, None),
    "": ("", None, None),
    "a, seq = x": ("a", None, None),
    "a, seq = 99999999999999999999999": ("a", None, None),
    "a, seq =  5": ("a", None, None),
    "a, seq = 12e3": ("a", None, 12),
}

OWN: dict[str, RangeName] = {
    "step 12": RangeName("tcprobe_step", "step", 12),
    "step x": RangeName("step x"),
    "forward": RangeName("forward", "phase"),
    "backward": RangeName("backward", "phase"),
    "optimizer": RangeName("optimizer", "phase"),
    "input": RangeName("input", "phase"),
    "layer dense_1": RangeName("dense_1", "layer"),
    "layer forward": RangeName("forward", "layer"),
    "forward()": RangeName("forward()"),
    "train_step": RangeName("train_step"),
}

MARKER = (
    "{'mod': 'torch.nn.functional', 'op': 'linear', 'args': [{'name': '', 'type': 'tensor', 'shape': (64, 784), "
    "'dtype': 'float16'}, {'name': '', 'type': 'tensor', 'shape': (10, 784), 'dtype': 'float16'}, {'name': '', 'type':"
    " 'NoneType', 'value': None}]}"
)
PYTORCH: dict[str, RangeName] = {
    "aten::mm": RangeName("aten::mm", "op", op_type="aten::mm"),
    "flash_attn::_flash_attn_forward": RangeName(
        "flash_attn::_flash_attn_forward", "op", op_type="flash_attn::_flash_attn_forward"
    ),
    "AddmmBackward0": RangeName("AddmmBackward0", "op", op_type="AddmmBackward0"),
    "autograd::engine::evaluate_function: AddmmBackward0": RangeName("backward", "phase"),
    "ProfilerStep#7": RangeName("ProfilerStep#7", "step", 7),
    "Optimizer.step#AdamW.step": RangeName("optimizer", "phase"),
    "Optimizer.zero_grad#AdamW.zero_grad": RangeName("Optimizer.zero_grad#AdamW.zero_grad"),
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": RangeName("input", "phase"),
    "layer:conv1": RangeName("conv1", "layer"),
    "FlashAttnFunc": RangeName("FlashAttnFunc"),
    "FSDP::pre_forward (blocks.9)": RangeName("FSDP::pre_forward (blocks.9)"),
    "Jacobi solve": RangeName("Jacobi solve"),
    "MatMul: dense/MatMul": RangeName("MatMul: dense/MatMul"),  # TensorFlow's are in a domain
    "forward": RangeName("forward"),  # whatever a user means by it
    "step 3": RangeName("step 3"),
    MARKER: RangeName("linear", "op", None, "linear", "float16", "[[64, 784], [10, 784], null]"),
    "{'mod': 'LSTM', 'strRepr': '64, 128'}": RangeName("LSTM"),
    "{'traceMarker': ['a.py:1'], 'funcStack': '/Net::forward/linear'}": RangeName("/Net::forward/linear"),
    "{'mod': 'x'": RangeName("{'mod': 'x'"),
}

DETAILED = (
    '{"op":"MatMul","name":"dense/MatMul","args":[{"name":"a","shape":[64,784]},{"name":"b","shape":[784,250]}],'
    '"attrs":{"transpose_a":false,"T":"bfloat32","_class":["loc:@a\\001"],"shape":[?,3]}}'
)
TENSORFLOW: dict[str, RangeName] = {
    "MatMul: gradients/dense/MatMul_1": RangeName("gradients/dense/MatMul_1", "op", op_type="MatMul"),
    "fusion: cluster_0_1/xla_run/fusion.3": RangeName("cluster_0_1/xla_run/fusion.3", "op", op_type="fusion"),
    DETAILED: RangeName("dense/MatMul", "op", None, "MatMul", "bfloat16", "[[64, 784], [784, 250]]"),
    '{"op":"NoOp","name":"init","args":[],"attrs":{}}': RangeName("init", "op", op_type="NoOp"),
    '{"op":"AddN","name":"s","args":[{"name":"a","shape":null},null],"attrs":{"N":11,"T":"float16&"}}': RangeName(
        "s", "op", None, "AddN", "float16"
    ),
    '{"op":"AddN"': RangeName('{"op":"AddN"'),
    "[1]": RangeName("[1]"),
}

XLA: dict[str, RangeName] = {
    "Thunk:#hlo_op=custom-call.8#": RangeName("custom-call.8", "op", op_type="custom-call"),
    "Thunk:#name=jvp(Dense)/dot_general,hlo_op=custom-call.8.0#": RangeName(
        "jvp(Dense)/dot_general", "op", op_type="dot_general"
    ),
    "Thunk:#name=a/b,c,hlo_op=gemm_fusion_dot.2,unique_hlo_op_id=7#": RangeName(
        "a/b,c", "op", op_type="gemm_fusion_dot"
    ),
    "XlaModule:#prefix=jit(f)/jit(main),hlo_module=jit_f,program_id=3#": RangeName("jit_f(3)"),
    "XlaModule:#hlo_module=jit_f": RangeName("jit_f"),
    "XlaCompile:#module=jit_f#": RangeName("XlaCompile:#module=jit_f#"),
    "Thunk:#name=a#": RangeName("Thunk:#name=a#"),
}

TENSORRT: dict[str, RangeName] = {
    "/layer1/conv1/Conv + /layer1/relu/Relu": RangeName("/layer1/conv1/Conv + /layer1/relu/Relu", "op", op_type="Conv"),
    "/layer1/relu_1/Relu_1": RangeName("/layer1/relu_1/Relu_1", "op", op_type="Relu"),
    "Reformatting CopyNode for Input Tensor 0 to /fc/Gemm": RangeName(
        "Reformatting CopyNode for Input Tensor 0 to /fc/Gemm", "op", op_type="Reformatting CopyNode"
    ),
    "Identity_3": RangeName("Identity_3", "op"),
    "ExecutionContext::execute": RangeName("ExecutionContext::execute"),
}

OTHERS = {
    "NCCL": ("ncclAllReduce", "ncclSend"),
    "MPI": ("MPI_Allreduce", "MPI"),
    "cuDNN": ("cudnnConvolutionForward",),
    "cuBLAS": ("cublasGemmEx",),
    "mine": ("aten::mm", "step 3", "forward"),
}

TOLD = {None: PYTORCH, "tcprobe": OWN, "tensorflow-core": TENSORFLOW, "TSL": XLA, "TensorRT": TENSORRT}


@pytest.mark.parametrize(("domain", "text"), [(domain, text) for domain, texts in TOLD.items() for text in texts])
def test_told(domain: str | None, text: str) -> None:
    assert name_of_range(domain, text) == TOLD[domain][text]


@pytest.mark.parametrize(("domain", "text"), [(domain, text) for domain, texts in OTHERS.items() for text in texts])
def test_calls_of_a_library_and_unknown_domains_are_neither_op_nor_layer(domain: str, text: str) -> None:
    assert name_of_range(domain, text) == RangeName(text)


Parts = tuple[str, str | None, int | None]


def cut(text: str) -> Parts:
    """Return what `cut_sql` is to make of a text."""
    name = next((text[: text.index(mark)] for mark in (", seq = ", ", op_id = ", ", sizes = [") if mark in text), text)
    digits = re.match("[0-9]{1,20}", text.partition(", seq = ")[2])
    number = int(digits[0]) if digits else None
    sizes = text[text.index(", sizes = [") + 10 :].partition(", input_op_ids = [")[0] if ", sizes = [" in text else None
    return name, sizes, number if number is not None and number < 2**63 - 1 else None


def in_sql(texts: list[str]) -> list[Parts]:
    """Return what SQLite cuts off."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE e (t TEXT)")
        database.executemany("INSERT INTO e VALUES (?)", [(text,) for text in texts])
        return database.execute(f"SELECT {', '.join(cut_sql('t'))} FROM e ORDER BY rowid").fetchall()


def test_sql_cuts_numbers_off() -> None:
    assert in_sql(list(TEXTS)) == list(TEXTS.values()) == [cut(text) for text in TEXTS]


PARTS = st.sampled_from(
    [
        *(
            ", seq = ",
            ", op_id = ",
            ", sizes = [",
            ", input_op_ids = [",
            "[1, 2]",
            "]",
            "12",
            "9223372036854775807",
            "-1",
        ),
        *("aten::mm", " ", "é", "\U0001f600", "'", "\n", "0" * 30, "1" * 30),
    ]
)
HOSTILE = st.lists(PARTS | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)).map(
    "".join
)


@settings(max_examples=60)
@given(st.lists(HOSTILE, max_size=20))
def test_sql_cuts_any_text_alike(texts: list[str]) -> None:
    assert in_sql(texts) == [cut(text) for text in texts]


@settings(max_examples=150)
@given(
    st.sampled_from([*TOLD, "NCCL"]), HOSTILE | st.text(max_size=30) | st.sampled_from([DETAILED, *PYTORCH]), st.data()
)
def test_any_text_is_told_or_left(domain: str | None, text: str, data: st.DataObject) -> None:
    cut_at = data.draw(st.integers(0, len(text)))
    found = name_of_range(domain, text[:cut_at] + data.draw(HOSTILE) + text[cut_at:])
    assert (found.step is not None) <= (found.kind == "step")
    assert (found.op_type is not None) <= (found.kind == "op")
    assert found.input_shapes is None or parse_json_shapes(found.input_shapes)
    assert json.loads(found.input_shapes or "[]") is not None


@pytest.mark.parametrize("domain", [*TOLD, "NCCL"])
@pytest.mark.parametrize(
    "text",
    [
        *('{"op":"A","name":"B","args":' + "[" * 60_000, "{" * 60_000, "/" * 60_000, "layer:" * 10_000),
        *("Thunk:#name=" + "a,hlo_op=" * 6_000, "XlaModule:#" + ",hlo_module=a,program_id=1" * 2_000 + "!"),
        *("Op: " + "x" * 200_000, "{'mod': 'a', 'op': 'b', 'args': [" + "{'name': '" * 6_000, "\x00\x1b[2J\u202e"),
        *("/A" * 30_000 + "/", "{'traceMarker': " + "'funcStack': '" * 4_000, "A" * 60_000 + "Backward"),
    ],
    ids=lambda text: text[:20],
)
def test_hostile_texts_cost_little_and_tell_nothing_false(domain: str | None, text: str) -> None:
    found = name_of_range(domain, text)
    assert found.name and found.step is None and found.input_shapes is None
    assert len(text) <= LONGEST or found == RangeName(text)


REAL_MARKERS = {
    *("FSDP::pre_forward", "FSDP::post_forward", "FSDP::root_pre_forward", "FSDP::inputs_to_device", "FlashAttnFunc"),
    *("AllToAll4D", "record_param_comms", "nccl:all_to_all", "detach_", "_NoopSaveInputs"),
    *("RegisterPostBackwardFunction", "MPI", "Jacobi"),
}


@pytest.mark.skipif(not NSYS.is_dir(), reason="no real samples here")
def test_real_names() -> None:
    """Every op of PyTorch and layer of TensorRT is an op; no marker of FSDP, NCCL or MPI is."""
    seen: dict[tuple[str | None, str | None], set[str]] = {}
    for file in sorted(NSYS.glob("*.sqlite")):
        for domain, text in real_names(file):
            found = name_of_range(domain, text)
            seen.setdefault((domain, found.kind), set()).add(found.name)
    assert {key: len(names) for key, names in seen.items()} == {
        (None, "op"): 88,
        (None, None): 153,
        ("TensorRT", "op"): 58,
        ("TensorRT", None): 1,
        ("NCCL", None): 5,
        ("MPI", None): 5,
    }
    assert {name.partition(" ")[0] for name in seen[None, None]} == REAL_MARKERS


def real_names(file: object) -> list[tuple[str | None, str]]:
    """Return the distinct texts of a sample, cut, with their domains."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'NVTX_EVENTS'").fetchall():
            return []
        text = "coalesce(text, (SELECT value FROM StringIds WHERE id = textId))"
        domains = dict(database.execute(f"SELECT domainId, {text} FROM NVTX_EVENTS WHERE eventType = 75").fetchall())
        rows = database.execute(
            f"SELECT DISTINCT domainId, CASE domainId WHEN 0 THEN {cut_sql(text)[0]} ELSE {text} END"
            " FROM NVTX_EVENTS WHERE eventType IN (59, 60)"
        ).fetchall()
    return [(domains.get(number, None if number == 0 else "NCCL"), name) for number, name in rows]
