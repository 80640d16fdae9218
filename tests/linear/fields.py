"""Every text of profiles that tcprobe takes apart, what reads it, and texts made to cost more than their length."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tcprobe.analysis.capability import tc_capable
from tcprobe.analysis.kernels.cxx import parse, readable
from tcprobe.analysis.kernels.verdict import by_name
from tcprobe.analysis.ops.attribution import GraphIndex, OpName, attribute_ops
from tcprobe.analysis.ops.paths import plain_path
from tcprobe.analysis.waits import tuning
from tcprobe.errors import WrongFormat
from tcprobe.gemm.matmul import einsum_gemms
from tcprobe.gemm.ops import conv_like, family_of
from tcprobe.hardware import gpus_named, partition_of
from tcprobe.identify import has_tensor_cores
from tcprobe.probe.script.tee import Patterns
from tcprobe.readers.dlprof.layout import canonical, profile_name
from tcprobe.readers.dlprof.tables import called_from, dtype_of, shapes_of
from tcprobe.readers.dlprof.text import _heading
from tcprobe.readers.host_work import host_work
from tcprobe.readers.xspace.text import executor_op, kernel_config, memory_size, parse_shapes, program_id, split_op
from tcprobe.rules.words import short_name
from tcprobe.schema.columns import Table
from tcprobe.schema.op import OpRecord
from tcprobe.schema.tables import GRAPH_OPS

Reader = Callable[[str], object]


def attribute(path: str) -> object:
    """Join an op and its gradient to an empty graph."""
    index = GraphIndex(Table(GRAPH_OPS, {}))
    return attribute_ops([OpName(path, "MatMul"), OpName(f"{path}/MatMul", "MatMul"), OpName("a/b", "MatMul")], index)


def tuned(name: str) -> object:
    """Search a kernel's name for the words of algorithms, as the search for autotuned calls does."""
    patterns = (tuning.CHECKER, *tuning._FAMILIES, tuning._MULTIPLIES, tuning._HELPS, tuning._TORCH)
    return [pattern.search(name) for pattern in patterns]


def einsum(equation: str) -> object:
    """Read an equation of two operands of an unknown shape."""
    return einsum_gemms(OpRecord("Einsum", (None, None), None, {"equation": equation}))


def heading(cells: list[str]) -> object:
    """Read the header of a report of DLProf, which may be refused."""
    with suppress(WrongFormat):
        return _heading(Path("report.csv"), iter([["Op Report"], cells]))
    return None


READERS: Final[dict[str, Reader]] = {
    "kernel": by_name.__wrapped__,
    "kernel, as C++": parse,
    "kernel, mangled": lambda text: readable("_Z" + text),
    "kernel, with arguments": lambda text: by_name.__wrapped__(f"void f<{text}>(int)"),
    "kernel, short": short_name,
    "kernel, autotuned": tuned,
    "kernel_details": kernel_config,
    "memcpy_details": memory_size,
    "op path": attribute,
    "op path, plain": plain_path,
    "op path, compiled": lambda text: attribute(f"jit(f)/{text}/dot_general"),
    "op annotation": split_op,
    "op type": lambda text: (tc_capable(text), family_of(text), conv_like(text)),
    "host event": lambda text: (executor_op(text), host_work(text)),
    "input shapes": parse_shapes,
    "HLO module": program_id,
    "equation": einsum,
    "GPU name": lambda text: (gpus_named(text), partition_of(text), has_tensor_cores(None, text)),
    "DLProf: Data Type": dtype_of,
    "DLProf: Input Shapes": lambda text: shapes_of(text, "Conv2D"),
    "DLProf: Op Type": lambda text: shapes_of("<N:1, C:2>", text),
    "DLProf: Stack Trace": called_from,
    "DLProf: header": lambda text: heading(["Op Name", *("" for _ in text)]),
    "DLProf: heading": canonical,
    "DLProf: file name": profile_name,
    "printed line": lambda text: list(Patterns([r"(?P<name>loss)=(?P<value>\S+)"]).find(text)),
}
"""What is read -> what reads it."""

PARTS: Final = (
    *(
        "(",
        "<",
        "[",
        "{",
        ")",
        ">",
        ",",
        '"',
        "'",
        "/",
        " ",
        "\n",
        "\t",
        ":",
        "::",
        "-",
        ".",
        "=",
        "0",
        "1",
        "a",
        "A",
        "_",
    ),
    *("a_", "Ab", "a1", "1x", "a/", "a::", "a:1 ", "a, ", "<1>", "-1", "1.", "\u00e9", "->", "...", "%", ";"),
    *("jvp(", "transpose(", "jit(", "while/body/", "gradient_tape/", "MatMul/", "a_grad/", "replica_1/", "then/_1/"),
    *("S_", "S", "N1a", "IL1", "Li1", "T1", "enable_if<a>::type ", "operator ", "(anonymous namespace)::", "void "),
    *("winograd", "wgrad", "xla_", "nchw", "DSE::", "sm90::", "h1x", "Conv2D", "Depthwise", "cudnn_generated_sdpa_"),
    *(
        "fusion_",
        "__cublas$",
        "CUTENSOR_NAMESPACE::",
        "fbgemm_gpu::",
        "dgemm_1x",
        "gemm_mha_v1",
        "MIG ",
        "GRID ",
        "1g.5gb+",
    ),
    *("loss", "loss ", "acc=", "$a:1 ", "Compile", "GPU device IDs are not being used: ", "f32[1,", "K:1,"),
)
"""Pieces that are repeated: brackets, separators, and what the patterns' own classes hold."""


def nested(open_: str, close: str) -> Callable[[int], str]:
    """Return what makes brackets within one another, n characters in all."""
    return lambda n: open_ * (n // len(open_ + close)) + "a" + close * (n // len(open_ + close))


TEXTS: Final[dict[str, Callable[[int], str]]] = {
    **{repr(part): lambda n, part=part: part * (n // len(part)) for part in PARTS},  # type: ignore[misc]
    "(( ))": nested("(", ")"),
    "<< >>": nested("f<", ">"),
    "jvp(( ))": nested("jvp(", ")"),
    "transpose(jvp(( )))": nested("transpose(jvp(", "))"),
    "N..E": nested("N1a", "E"),
    "long scope, S_": lambda n: f"{n // 2}{'a' * (n // 2)}I{'S_' * (n // 4)}E",
    "distinct scopes": lambda n: "".join(f"m{i}/" for i in range(n // 6)),
    "a,a->a": lambda n: f"{'a' * (n // 3)},{'b' * (n // 3)}->{'c' * (n // 3)}",
}
"""Name -> a text of about n characters."""
