"""A profile made of names: what a document lists as kernels, ops, GPUs and shapes, as an XSpace."""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any, Final

from tests.fixtures.xplane.make import A100, CONFIG, HMMA, Literal, Plane
from tests.fixtures.xplane.schema import XSpace

PLAIN: Final = {
    "kernels": [HMMA, "volta_sgemm_128x64_nn", "void cutlass::Kernel<cutlass_80_tensorop_f16_s16816gemm>(Params)"],
    "ops": ["model/fc/MatMul:MatMul", "gradient_tape/model/conv/Conv2DBackpropFilter:Conv2DBackpropFilter"],
    "shapes": ["(half[64,128];half[128,10])", "(f32[8,16,16,4]{3,2,1,0})"],
    "gpus": ["NVIDIA A100-SXM4-40GB"],
    "details": [CONFIG],
}


def profile(content: bytes) -> bytes:
    """Return the profile for a document; of what is no document, or lacks a list, the plain one's."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        tree = {}
    lists = {key: _texts(tree.get(key) if isinstance(tree, dict) else None, plain) for key, plain in PLAIN.items()}
    space = XSpace(hostnames=["node1"])
    for number, gpu in enumerate(lists["gpus"][:4]):
        plane = Plane(space, f"/device:GPU:{number}", **{**A100, "gpu_device_name": gpu})
        line = plane.line(13, "Stream #13(Compute)")
        rest = zip(cycle(lists["ops"]), cycle(lists["shapes"]), cycle(lists["details"]), strict=False)
        for at, (kernel, (op, shape, details)) in enumerate(zip(lists["kernels"][:40], rest, strict=False)):
            known: dict[str, Any] = {"tf_op": op, "shape": shape, "kernel_details": Literal(details)}
            plane.event(line, kernel, at * 1000, 900, correlation_id=at, **known)
    host = Plane(space, "/host:CPU")
    python = host.line(1, "python")
    host.event(python, "tcprobe_step", 0, 10**6, step_num=0, _r=1)
    host.event(python, lists["ops"][0], 10, 50, shape=lists["shapes"][0])
    raw: bytes = space.SerializeToString(deterministic=True)
    return raw


def _texts(value: Any, plain: list[str]) -> list[str]:
    """Return the texts of a list, such as protobuf takes: without lone surrogates."""
    found = value if isinstance(value, list) and value else plain
    return [x.encode("utf-8", "replace").decode() if isinstance(x, str) else plain[0] for x in found]
