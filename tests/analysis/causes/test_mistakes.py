"""What DLProf and XProf got wrong must not be said: each of their mistakes, as a run that invites it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tcprobe.analysis.causes.advice import advise, off_tensor_cores
from tcprobe.analysis.flow import analyse
from tcprobe.readers.open import open_profile
from tcprobe.schema.columns import Value
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import Blocker
from tcprobe.schema.profile import Metadata, Profile, Window
from tcprobe.schema.waits import Waiting
from tcprobe.schema.whatif import WhatIf
from tests.report.builders import table
from tests.support import shared

MS = 1_000_000
A100 = {"device": 0, "name": "A100-SXM4-40GB", "vendor": "Nvidia", "tensor_cores": "yes", "state": "active"}
PRECISION = {"mixed_precision", "use_float16", "allow_tf32", "check_tf32", "halve_precision"}


def matmul(name: str, ms: float, kind: Any = "none", **more: Value) -> dict[str, Value]:
    return {"op": name, "op_type": "MatMul", "tc_capable": "yes", "sum_ns": round(ms * MS), "dtype": "float32",
            **Blocker(kind).columns(), **more}  # fmt: skip


def run(*ops: dict[str, Value], devices: dict[str, Value] | None = None, **more: Any) -> Profile:
    """Two steps of 50 ms on an A100 that is always busy."""
    kernels = [
        {"kernel": f"k{n}", "op": row["op"], "op_type": "MatMul", "sum_ns": row["sum_ns"], "evidence": "its name",
         "uses_tc": "yes" if row.get("tc_ns") else "no"}
        for n, row in enumerate(ops)
    ]  # fmt: skip
    steps = [{"iteration": n, "in_window": True, "steps": 1, "duration_ns": 50 * MS} for n in range(2)]
    waiting = Waiting(50.0 * MS, "between steps", 50.0 * MS, 0.0)
    profile = Profile(Metadata("xplane", window=Window(0, 1)), waiting=waiting, **more)
    device = table("devices", {**A100, "sum_ns": 100 * MS, **(devices or {})})
    profile = profile.with_tables(table("kernels", *kernels), table("ops", *ops), device, table("iterations", *steps))
    return advise(replace(profile, off=off_tensor_cores(profile)))


def kinds(profile: Profile) -> list[str]:
    return [item.kind for item in profile.advice]


TF32 = matmul("dense/MatMul", 100, tc_ns=100 * MS)


def test_no_mixed_precision_while_tf32_runs_on_tensor_cores() -> None:
    """DLProf told a run of float32 with 76 % on Tensor Cores to enable AMP, for no op was float16."""
    assert kinds(run(TF32)) == []


def test_unless_a_prediction_for_these_products_says_that_it_pays() -> None:
    gain = WhatIf("mixed_bfloat16", Range(5.0 * MS, 10.0 * MS, 20.0 * MS), 50.0 * MS, 1, "measured x predicted")
    (item,) = run(TF32, what_ifs=(gain,)).advice
    assert (item.kind, item.saves_ns, item.step_pct) == ("halve_precision", 10.0 * MS, 20.0)


def test_nothing_of_ops_without_gpu_time() -> None:
    """DLProf listed 23 ops as eligible and unused that had run nothing on the GPU."""
    assert kinds(run(TF32, matmul("cluster/xla_compile", 0, "library", op_type="_XlaCompile"))) == []


def test_nothing_of_what_could_use_tensor_cores_by_type_alone() -> None:
    """A 2x3 product of float32 is eligible; whether its kernel uses Tensor Cores is not known."""
    assert kinds(run(matmul("a", 60, "kernels_unknown", unknown_ns=60 * MS), TF32)) == []


def test_no_batch_size_without_a_figure_of_memory() -> None:
    """XProf and DLProf take what TensorFlow reserves, all of it, for what the run needs."""
    assert "larger_batch" not in kinds(run(TF32, devices={"memory_bytes": 40_000_000_000}))


def test_the_real_epochs_of_a_key_node_come_before_all() -> None:
    path = shared("samples/dlprof/v100_tf1_0.13_detailed.csv")
    told = analyse(open_profile(path).with_metadata(run={"key_node": "AssignVariableOp_1"}))
    assert [(item.code, item.says.get("times")) for item in told.advice][:1] == [("TC316", 12)]
    assert not PRECISION & set(kinds(told))  # ops without kernel times are weighed by nothing
