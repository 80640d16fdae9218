"""Small runs on a GPU of simple constants, whose what-ifs can be worked out by hand."""

from __future__ import annotations

from typing import Any

from tcprobe.analysis import Options, analyse
from tcprobe.cost.constants import Constants, Multiplier, Rate
from tcprobe.hardware import Gpu
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.whatif import WhatIf
from tests.analysis import builders as b

# One tile of 128 x 128 at the full peak, no launch, nothing hidden, half the rate for even sizes that are not aligned.
# An A100's peaks: 19.5 TFLOP/s in float32 on CUDA cores, 156 in TF32, 312 in 16 bits.
SIMPLE = Rate(
    1.0, 1.0, t0_ns=0.0, split_ns=0.0, fill_k=0.0, l2_speed=1.0, l2_share=0.01, quantised=0.0, sharp=200.0,
    tiles=((128, 128, 1.0),), spread=(1.0, 1.0, 1.0),
)  # fmt: skip
A100 = {"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "sm_count": 108}


def simple(gpu: Gpu) -> Constants:
    """Return constants by hand: nothing but arithmetic counts."""
    half = {f"gemm:{level}": Multiplier(0.5, 0.5, 0.5) for level in ("tc16:even", "tf32:odd")}
    return Constants(gpu.id, "by hand", "calibrated", dict.fromkeys(("tc16", "tf32", "fp32"), SIMPLE), {}, half)


def shipped(gpu: Gpu) -> Constants | None:
    """Return no constants of this GPU: the shipped ones count."""
    return None


def dense(name: str, size: int = 4096, units: int = 4096, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """Return a layer of 4096 samples."""
    return b.dense(name, size, units, batch=4096, dtype=dtype, **more)


def run(
    *layers: tuple[dict[str, Any], str, int],
    devices: tuple[int, ...] = (0,),
    tables: tuple[Table, ...] = (),
    gpu: dict[str, Any] | None = None,
    **metadata: Any,
) -> Profile:
    """Return five steps of 1,000 ns, each with the kernel (name, ns) of every layer, then 100 ns of others."""
    rows: list[tuple[Any, ...]] = []
    for device in devices:
        for step in range(5):
            at = 1000 * step
            for number, (_, kernel, length) in enumerate(layers):
                rows.append((kernel, number, step, at, length, device))
                at += length
            rows.append((b.OTHER, len(layers), step, at, 100, device))
    names = b.details(*((str(layer["op"]), "MatMul") for layer, _, _ in layers), ("other", "Relu"))
    marks = b.marks([1000 * step for step in range(5)], 999)
    held = b.devices(*({"device": d, **A100, **(gpu or {})} for d in devices))
    graph = b.graph(*(layer for layer, _, _ in layers))
    return b.profile(b.launches(*rows), names, held, marks, graph, *tables, **metadata)


def analysed(profile: Profile, constants: Any = simple, **options: Any) -> Profile:
    """Return a run with its what-ifs."""
    return analyse(profile, Options(constants=constants, **options))


def found(profile: Profile, constants: Any = simple, **options: Any) -> dict[str, WhatIf]:
    """Return the what-ifs of a run by what changes and, of a size, by its layer."""
    made = analysed(profile, constants, **options).what_ifs
    return {" ".join(filter(None, (one.change, one.layer))): one for one in made}
