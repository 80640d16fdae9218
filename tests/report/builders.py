"""Build analysed profiles by hand, with figures like those of real runs."""

from __future__ import annotations

import io
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.flow import analyse, with_advice
from tcprobe.report import RENDERERS, RenderSpec
from tcprobe.report.document import Block, DataTable, Document, ReportSpec, Section
from tcprobe.report.run.document import RunDocument
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.profile import Metadata, Note, Profile, Window
from tcprobe.schema.tables import TABLES
from tcprobe.schema.waits import Waiting
from tests.analysis import builders as b

MS = 1_000_000
WGRAD = "void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half, __half, float, int, (bool)1, (bool)0, (int)1>(...)"
SGEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn"


class Plain(Struct, frozen=True):
    """A document of given blocks, and of raw values for programs."""

    blocks: tuple[Block, ...]
    values: tuple[DataTable, ...] = ()
    tree: dict[str, Any] = {}

    def screen(self) -> tuple[Block, ...]:
        return self.blocks

    def page(self) -> tuple[Block, ...]:
        return self.blocks

    def data(self) -> dict[str, Any]:
        return self.tree

    def tables(self) -> tuple[DataTable, ...]:
        return self.values

    def table(self) -> DataTable:
        return self.values[0]


def table(name: str, *rows: dict[str, Value]) -> Table:
    """Build a table of the contract from its rows."""
    return Table.from_rows(TABLES[name], rows)


def figure(metric: str, value: float | None = None, **more: Any) -> dict[str, Value]:
    return {"metric": metric, "value": value, **more}


def rendered(format_: str, document: Document, width: int | None = None, color: bool = False) -> str:
    """Return a document in a format, line ends as the format writes them."""
    out = io.StringIO(newline="")
    (renderer,) = (r for r in RENDERERS if r.name == format_)
    renderer.render(document, RenderSpec(width, color), out)
    return out.getvalue()


def texts(section: Section) -> tuple[tuple[str, ...], ...]:
    """Return the cells of a table as a person reads them."""
    return tuple(tuple(map(str, row)) for row in section.cells)


def run(profile: Profile, top: int | None = None, by: tuple[str, ...] = (), brief: bool = False) -> RunDocument:
    """Return the report of a profile."""
    return RunDocument(profile, ReportSpec(top, by, brief))


def gpu_profile(**metadata: Any) -> Profile:
    """A mixed-precision run of four steps on one A100, half of its kernel time in a kernel off the Tensor Cores.

    Kernel time in the window: 42 (wgrad) + 30 (gemm, TC) + 20 (elementwise) + 8 (unknown) = 100 ms, over two steps of
    55 ms each.
    """
    meta = Metadata(
        format="xplane",
        paths=("runs/gan/host.xplane.pb",),
        profiler="TensorFlow's profiler (XSpace)",
        framework="tensorflow 2.4.1",
        host="node7",
        command=("python", "train_gan.py", "--precision", "mixed_float16"),
        precision="mixed_float16",
        xla=False,
        gpu_used=True,
        window=Window(2, 3, 20 * MS, 130 * MS, "detected"),
        notes=(
            Note("lost-events", "7 events were lost", "profile fewer steps: --iter-stop", "warning"),
            Note("clock", "the clock of the file was corrected", None, "note"),
        ),
    )
    tables = [_summary(), _kernels(), _ops(), _layers(), _iterations(), _devices(), _bad_sizes(), _metrics()]
    waiting = Waiting(55.0 * MS, "between steps", 50.0 * MS, 5.0 * MS)
    return with_advice(Profile(replace(meta, **metadata), waiting=waiting).with_tables(*tables))


def _summary() -> Table:
    return table(
        "summary",
        figure("tc_kernel_time_pct", 30.0, low=30.0, high=38.0, basis="name"),
        figure("coverage_pct", 92.0, basis="name"),
        figure("tc_capable_time_pct", 41.666666666666664, basis="name"),
        figure("gpu_busy_pct", 90.90909090909092, basis="measured"),
        figure("step_time_ns", 55.0 * MS, basis="measured", reason="steps inside the profiled window"),
        figure("tc_pipe_active_pct", None, reason="needs hardware counters"),
        figure("gpu", None, text="NVIDIA A100-SXM4-40GB"),
    )


def _kernels() -> Table:
    wgrad = "model/conv2d_3/Conv2D_grad/Conv2DBackpropFilter"
    return table(
        "kernels",
        {"device": 0, "kernel": WGRAD, "op": wgrad, "op_type": "Conv2DBackpropFilter", "calls": 2, "sum_ns": 42 * MS,
         "min_ns": 20 * MS, "max_ns": 22 * MS, "uses_tc": "no", "basis": "name", "evidence": "direct kernel",
         "precision": "fp16", "registers": 128, "static_shared_bytes": 1024, "block": "256,1,1", "grid": "640,1,1",
         "occupancy_pct": 25.0},
        {"device": 0, "kernel": SGEMM, "op": "model/dense/MatMul", "op_type": "MatMul", "calls": 4, "sum_ns": 30 * MS,
         "min_ns": 7 * MS, "max_ns": 8 * MS, "uses_tc": "yes", "basis": "name", "evidence": "s16816gemm",
         "precision": "fp16", "registers": 230, "dynamic_shared_bytes": 81920, "block": "128,1,1", "grid": "32,25,1",
         "occupancy_pct": 12.5},
        {"device": 0, "kernel": "Eigen::internal::EigenMetaKernel<...>", "op": "model/tanh", "op_type": "Tanh",
         "calls": 8, "sum_ns": 20 * MS, "min_ns": 2 * MS, "max_ns": 3 * MS, "uses_tc": "no", "basis": "name",
         "evidence": "Eigen element-wise"},
        {"device": 0, "kernel": 'odd "kernel",\nwith\ttwo lines', "op": None, "calls": 1, "sum_ns": 8 * MS,
         "min_ns": 8 * MS, "max_ns": 8 * MS, "uses_tc": "unknown", "basis": None, "evidence": "no rule matches"},
    )  # fmt: skip


def _ops() -> Table:
    return table(
        "ops",
        {"op": "model/conv2d_3/Conv2D_grad/Conv2DBackpropFilter", "op_type": "Conv2DBackpropFilter",
         "layer": "generator/conv2d_3", "pass": "wgrad", "calls": 2, "launches": 2, "tc_capable": "yes",
         "tc_blocker": "library choice: ran a kernel without them", "tc_blocker_kind": "library",
         "sum_ns": 42 * MS, "union_ns": 42 * MS,
         "tc_ns": 0, "unknown_ns": 0, "dtype": "float16",
         "shapes": "[[4096,28,28,8],[4],[4096,28,28,1]] -> [5,5,8,1]", "flops": 1284505600,
         "source": "train_gan.py:61", "basis": "graph"},
        {"op": "model/dense/MatMul", "op_type": "MatMul", "layer": "generator/dense", "pass": "forward", "calls": 2,
         "launches": 4, "tc_capable": "yes", "tc_blocker": "none", "tc_blocker_kind": "none", "sum_ns": 30 * MS,
         "union_ns": 30 * MS,
         "tc_ns": 30 * MS, "unknown_ns": 0, "dtype": "float16", "shapes": "[[4096,100],[100,3136]] -> [4096,3136]",
         "flops": 2569011200, "source": "train_gan.py:54", "basis": "graph"},
        {"op": "model/tanh", "op_type": "Tanh", "tc_capable": "no", "sum_ns": 20 * MS, "tc_ns": 0, "unknown_ns": 0},
    )  # fmt: skip


def _layers() -> Table:
    return table(
        "layers",
        {"layer": "generator/conv2d_3", "layer_class": "Conv2D", "launches": 2, "sum_ns": 42 * MS, "share_pct": 42.0,
         "wgrad_ns": 42 * MS, "tc_ns": 0, "unknown_ns": 0, "capable_ns": 42 * MS, "tc_capable_time_pct": 0.0,
         "gemms": 1, "flops": 1284505600, "source": "train_gan.py:61"},
        {"layer": "generator/dense", "layer_class": "Dense", "launches": 4, "sum_ns": 30 * MS, "share_pct": 30.0,
         "forward_ns": 30 * MS, "tc_ns": 30 * MS, "unknown_ns": 0, "capable_ns": 30 * MS,
         "tc_capable_time_pct": 100.0, "gemms": 1, "flops": 2569011200, "source": "train_gan.py:54"},
        {"layer": "(no layer)", "launches": 9, "sum_ns": 28 * MS, "share_pct": 28.0, "tc_ns": 0,
         "unknown_ns": 8 * MS},
    )  # fmt: skip


def _iterations() -> Table:
    def step(
        number: int, counted: bool, duration: float | None, total: int, on_tc: int, unknown: int
    ) -> dict[str, Value]:
        return {"iteration": number, "in_window": counted, "steps": 1, "start_ns": number * 55 * MS,
                "duration_ns": duration, "launches": 8, "sum_ns": total * MS, "union_ns": total * MS,
                "tc_ns": on_tc * MS, "unknown_ns": unknown * MS, "memory_ns": MS,
                "tc_kernel_time_pct": 100 * on_tc / total}  # fmt: skip

    return table(
        "iterations",
        step(0, False, 900 * MS, 200, 10, 100),
        step(1, False, 60 * MS, 50, 15, 4),
        step(2, True, 55 * MS, 50, 15, 4),
        step(3, True, None, 50, 15, 4),
    )


def _device(ordinal: int, state: str, **more: Value) -> dict[str, Value]:
    return {"device": ordinal, "name": "A100-SXM4-40GB", "name_basis": "inferred", "vendor": "Nvidia",
            "compute_capability": "8.0", "tensor_cores": "yes", "sm_count": 108, "memory_bytes": 42_505_273_344,
            "state": state, **more}  # fmt: skip


def _devices() -> Table:
    active = {"launches": 15, "sum_ns": 100 * MS, "union_ns": 100 * MS, "window_ns": 110 * MS,
              "gpu_busy_pct": 90.90909090909092, "tc_ns": 30 * MS, "unknown_ns": 8 * MS, "memory_ns": 2 * MS,
              "tc_kernel_time_pct": 30.0}  # fmt: skip
    return table("devices", _device(0, "active", **active))


def several_gpus() -> Profile:
    """The same run where the machine has four GPUs, of which it used two."""
    rows = [_device(i, "active" if i in (0, 2) else "idle", launches=15 if i in (0, 2) else 0) for i in range(4)]
    return gpu_profile().with_tables(table("devices", *rows))


def _bad_sizes() -> Table:
    return table(
        "bad_sizes",
        {"layer": "generator/conv2d", "layer_class": "Conv2D", "dimension": "filters", "size": 63, "next_size": 64,
         "multiple": 8, "passes": "forward, dgrad", "dtype": "float16", "kernel_ns": 3 * MS, "share_pct": 3.0,
         "flops_pct": 4.0, "saving_low_ns": 700_000, "saving_ns": 800_000, "saving_high_ns": 900_000,
         "saving_pct": 1.6, "saving_basis": "measured x predicted",
         "advice_kind": "change", "advice_gpu": "A100 SXM4 40GB", "rate_low_pct": 37, "rate_high_pct": 43,
         "rate_basis": "predicted",
         "predicted_for": "a100-sxm-40", "constants_gpu": "a100-sxm-80", "constants_stack": "PyTorch",
         "constants_borrowed": "gpu: a100-sxm-80; convolution: v100-sxm2",
         "source": "train_gan.py:57", "basis": "graph"},
        {"layer": "generator/conv2d_3", "layer_class": "Conv2D", "dimension": "filters", "size": 1, "next_size": 8,
         "multiple": 8, "passes": "forward", "dtype": "float16", "kernel_ns": 42 * MS, "share_pct": 42.0,
         "flops_pct": 0.5, "saving_low_ns": -10_000, "saving_ns": 15 * MS, "saving_high_ns": 20 * MS,
         "saving_pct": 30.0, "saving_basis": "measured x predicted",
         "advice_kind": "slice", "advice": "1 output channel: cuDNN may fall back to CUDA-core kernels",
         "source": "train_gan.py:61", "basis": "graph"},
    )  # fmt: skip


def _metrics() -> Table:
    return table(
        "metrics",
        {"step": 0, "name": "G Loss", "value": 0.72},
        {"step": 1, "name": "G Loss", "value": 0.699},
        {"step": 1, "name": "throughput", "value": 63603.233, "unit": "img/s"},
    )


def cpu_profile() -> Profile:
    """A run without a GPU: nothing of the Tensor Cores measured, the graph and the host times known."""
    meta = Metadata(
        "run_folder",
        ("tcprobe-runs/train_gan-1",),
        framework="tensorflow 2.21.0",
        command=("train_gan",),
        target_gpu="a100-sxm-40",
        gpu_used=False,
        window=Window(2, 9, basis="chosen while it ran"),
    )
    summary = table(
        "summary",
        figure("tc_kernel_time_pct", reason="no GPU: Tensor Core use was not measured", reason_kind="no_gpu"),
        figure("step_time_ns", 812.5 * MS, basis="measured"),
    )
    gemm = {"layer": "generator/dense", "layer_class": "Dense", "pass": "forward", "op": "dense/MatMul",
            "op_type": "MatMul", "m": 256, "n": 3087, "k": 100, "batch": 1, "dtype": "float32", "flops": 158054400,
            "executes": "yes", "calls_per_step": 1.0, "tc_blocker": "none", "tc_blocker_kind": "none",
            "source": "train_gan.py:54", "basis": "graph"}  # fmt: skip
    off = {
        **gemm,
        "op": "big/MatMul",
        "layer": "head",
        "dtype": "float32",
        "flops": 41945600,
        "tc_blocker": "TF32 off",
        "tc_blocker_kind": "tf32",
    }
    dead = {**off, "op": "dead/MatMul", "executes": "no"}
    host = {
        "op": "dense/MatMul",
        "op_type": "MatMul",
        "calls": 8,
        "sum_ns": 40 * MS,
        "min_ns": 4 * MS,
        "max_ns": 6 * MS,
    }
    bad = {"layer": "generator/dense", "layer_class": "Dense", "dimension": "units", "size": 3087, "next_size": 3088,
           "multiple": 8, "flops_pct": 79.0, "saving_low_ns": 20_000, "saving_ns": 24_000, "saving_high_ns": 31_000,
           "saving_pct": 48.0, "saving_basis": "predicted", "source": "train_gan.py:54", "basis": "graph"}  # fmt: skip
    profile = Profile(meta).with_tables(
        summary, table("gemms", gemm, off, dead), table("host_ops", host), table("bad_sizes", bad)
    )
    return with_advice(profile.with_absent(kernels="no GPU ran", devices="no GPU ran"))


def summary_only() -> Profile:
    """A source that holds a profiler's own totals and nothing else (DLProf's simple mode)."""
    meta = Metadata("dlprof_json", ("simple.json",), profiler="dlprof 0.16.0")
    rows = [
        {"metric": "Total GPU Time", "value": 17.09e9, "unit": "ns", "source": "simple.json"},
        {"metric": "GPU", "text": "A100-SXM4-40GB", "source": "simple.json"},
    ]
    summary = table("summary", figure("tc_kernel_time_pct", 15.447630193095379, basis="reported"))
    profile = Profile(meta).with_tables(summary, table("reported", *rows))
    return profile.with_absent(kernels="DLProf's summary has totals only", ops="DLProf's summary has totals only")


def phases_profile() -> Profile:
    """Three phases of 40, 60 and 15 steps on a V100, ten of the second profiled; epochs of 20 steps.

    A step takes 5, 20 and 30 ms, and the last one of an epoch 2 s more; the third phase is shorter than a window.
    """
    lengths = [(5, 20, 30)[(i >= 40) + (i >= 100)] + 2000 * (i % 20 == 19) for i in range(115)]
    starts = [MS * sum(lengths[:i]) for i in range(115)]
    kinds = ["warm-up" if i < 45 else "profiled" if i < 55 else "after" for i in range(115)]
    steps = [(i, starts[i], MS * lengths[i] if i < 114 else None, kinds[i]) for i in range(115)]
    kernels = [(b.TC, 0, i, starts[i] + 1000, 8 * MS) for i in range(45, 55)]
    marks = [
        {"iteration": i, "name": "tcprobe_step", "start_ns": starts[i], "end_ns": starts[i] + MS} for i in range(45, 55)
    ]
    calls: tuple[dict[int, float | None], ...] = ({0: 2}, {1: 5, 2: 1}, {1: 1, 2: 1})
    made = [
        b.dense(
            f"{name}/dense",
            512,
            512,
            64,
            function=f"__inference_{name}_{key}",
            part=key,
            calls_per_step=n,
            repeats=r,
            at_least=key == 2,
        )
        for key, name, n, r in ((0, "encoder", 0, 1), (1, "critic", 5, 1), (2, "generator", 12, 12))
    ]
    recorded = b.profile(
        b.launches(*kernels), b.table(TABLES["step_marks"], marks), b.devices({}), b.steps(*steps), b.graph(*made),
        b.details((made[1]["op"], "MatMul", "float16")),
        b.phases((0, 39, calls[0]), (40, 99, calls[1]), (100, 114, calls[2])),
        paths=("runs/wgan",), gpu_used=True, run={"window": {"first_step": 45, "last_step": 54}},
    )  # fmt: skip
    return analyse(recorded)


PROFILES = {
    "gpu": gpu_profile,
    "several_gpus": several_gpus,
    "cpu": cpu_profile,
    "summary_only": summary_only,
    "phases": phases_profile,
}
