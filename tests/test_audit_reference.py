"""The numbers of an audit against products that are derived here from Keras' own layers, by other code.

Nothing here uses `tcprobe.keras.products`, the convolutions of `tcprobe.gemm.conv` or the rules: M, N and K of every
product of a step come from the layers' shapes as NVIDIA's guides give them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from tcprobe.audit.source.read import parse_source, read_model, read_source
from tcprobe.audit.trace.traced import TraceRequest, trace
from tcprobe.cost.predict import Target, op_cost
from tcprobe.gemm.ops import gemms_of
from tcprobe.hardware import find_gpu
from tcprobe.rules.model.sizes import LinkedChange
from tcprobe.rules.model.step import Step
from tcprobe.schema.model import Model
from tests import warm
from tests.support import ROOT

STYLES = ROOT / "tests" / "styles"
GAN = ROOT / "workloads" / "train_gan.py"
BATCH = 1024
Multiset: TypeAlias = Counter[tuple[Any, ...]]


@dataclass
class Products:
    """Products of a step: (pass, the smaller of M and N, the larger, K, how many at once, FLOPs, dtype).

    M, N and K are None where the order of a sum is the library's choice (a strided input gradient, a weight gradient
    over sequences).
    """

    dtype: str = "float32"
    found: Multiset = field(default_factory=Counter)

    def one(self, pass_: str, m: int, n: int, k: int, at_once: int = 1, open_: bool = False) -> None:
        shape = (None,) * 4 if open_ else (min(m, n), max(m, n), k, at_once)
        self.found[(pass_, *shape, 2 * m * n * k * at_once, self.dtype)] += 1

    def dense(self, rows: int, inputs: int, units: int, data: bool = True) -> None:
        self.one("forward", rows, units, inputs)
        self.one("wgrad", inputs, units, rows)
        if data:
            self.one("dgrad", rows, inputs, units)

    def conv(self, images: int, layer: Any, image: Sequence[int], out: Sequence[int], data: bool, back: bool) -> None:
        """Add a convolution from `image` to `out`, or (`back`) a transposed one, whose forward pass is its gradient."""
        taps, strides, same = layer.kernel_size, layer.strides, layer.padding != "valid"
        groups = getattr(layer, "groups", 1)
        channels, filters = image[-1] // groups, out[-1] // groups
        rows, window = images * math.prod(out[:-1]), channels * math.prod(taps)
        if data or not back:
            self.one("dgrad" if back else "forward", rows, filters, window, groups)
        if data or back:
            met = math.prod(_met(*axis, same) for axis in zip(image[:-1], out[:-1], taps, strides, strict=True))
            whole = 2 * images * met * channels * filters * groups
            plain = set(strides) == {1}
            k = filters * math.prod(taps)
            shape = (*sorted((images * math.prod(image[:-1]), channels)), k, groups) if plain else (None,) * 4
            self.found[("forward" if back else "dgrad", *shape, whole, self.dtype)] += 1
        self.one("wgrad", window, filters, rows, groups)


def _met(size: int, out: int, taps: int, stride: int, same: bool) -> int:
    """Return the pairs of input position and tap that a stride lets meet, counted one by one."""
    pad = max((out - 1) * stride + taps - size, 0) // 2 if same else 0
    return sum((x + pad - tap) % stride == 0 for x in range(size) for tap in range(taps))


def of_keras(model: Any, batch: int) -> Multiset:
    """Return the products of a functional or Sequential model of Dense and convolutions, nested ones included."""
    products, needs = Products(), {}

    def shapes(tensors: Iterable[Any]) -> list[tuple[int, ...]]:
        return [tuple(batch if size is None else size for size in t.shape) for t in tensors]

    def run(inner: Any, given: list[bool]) -> list[bool]:
        inner = getattr(inner, "_functional", None) or inner
        needs.update(zip(map(id, inner.inputs), given, strict=True))
        for depth in sorted(inner._nodes_by_depth, reverse=True):
            for node in inner._nodes_by_depth[depth]:
                kind, need = type(node.operation).__name__, [needs[id(t)] for t in node.input_tensors]
                if kind in ("Functional", "Sequential"):
                    after = run(node.operation, need)
                elif kind == "InputLayer":
                    after = [needs[id(t)] for t in node.outputs]
                else:
                    layer = node.operation
                    _add(products, layer, shapes(node.input_tensors)[0], shapes(node.outputs)[0], any(need))
                    after = [any(need) or bool(layer.trainable_weights)] * len(node.outputs)
                needs.update(zip(map(id, node.outputs), after, strict=True))
        return [needs[id(t)] for t in inner.outputs]

    run(model, [False] * len(model.inputs))
    return products.found


def _add(products: Products, layer: Any, taken: tuple[int, ...], put: tuple[int, ...], data: bool) -> None:
    kind = type(layer).__name__
    if kind == "Dense":
        products.dense(math.prod(taken[:-1]), taken[-1], put[-1], data)
    elif kind == "Conv2D":
        products.conv(taken[0], layer, taken[1:], put[1:], data, back=False)
    elif kind == "Conv2DTranspose":
        products.conv(taken[0], layer, put[1:], taken[1:], data, back=True)


def of_audit(model: Model, like: Multiset) -> Multiset:
    """Return the products that an audit gives, M, N and K left out where `like` leaves them out."""
    open_ = {(key[0], key[5]) for key in like if key[1] is None}
    found: Multiset = Counter()
    for product in model.products:
        gemms, pass_ = gemms_of(product.record), product.record.pass_
        if not gemms:
            continue
        flops = sum(gemm.flops or 0 for gemm in gemms)
        (m, n), k, at_once = sorted((gemms[0].m or 0, gemms[0].n or 0)), gemms[0].k, gemms[0].batch
        shape = (None,) * 4 if (pass_, flops) in open_ else (m, n, k, at_once)
        found[(pass_, *shape, flops, product.record.dtype)] += round(product.calls)
    return found


def of_gan(batch: int, depth: int, filters: tuple[int, int, int], dtype: str) -> Multiset:
    """Return the GAN's step: the generator is updated through the discriminator, then the discriminator alone.

    Its generator's forward pass runs in both; the real images of the first update feed nothing that is used.
    """
    products = Products(dtype)
    first, second, third = filters
    generator = [(1, 100, 49 * depth), (7, depth, first), (14, first, second), (28, second, third), (28, third, 1)]
    discriminator = [(28, 1, 24), (14, 24, 64), (7, 64, 128), (1, 9 * 128, 1)]

    def run(layers: list[tuple[int, int, int]], data_from: int | None, weights: bool) -> None:
        for index, (side, inputs, outputs) in enumerate(layers):
            taps, rows = (25 if side > 1 else 1), batch * side * side
            products.one("forward", rows, outputs, taps * inputs)
            if data_from is not None and index >= data_from:
                products.one("dgrad", rows, inputs, taps * outputs)
            if weights:
                products.one("wgrad", taps * inputs, outputs, rows)

    run(generator, data_from=1, weights=True)
    run(discriminator, data_from=0, weights=False)  # only the way back to the generator
    run(generator, data_from=None, weights=False)
    for _ in ("real", "fake"):
        run(discriminator, data_from=1, weights=True)
    return products.found


# Measured steps of the GAN (TensorFlow 2.4, one A100-SXM4-40GB) times the share of them that the GPU was busy, in ms:
# all kernels, those that are no products included. float32 is the same model with TF32 off.
BUSY = {"tf32": 101 * 0.765, "float32": 150 * 0.837, "good": 68.4 * 0.799, "bad": 170 * 0.486}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("sizes", "precision", "expected", "measured"),
    [
        pytest.param(
            *("good", "tf32", of_gan(4096, 64, (64, 32, 8), "float32"), ("tf32", "float32")), marks=pytest.mark.long
        ),
        pytest.param(
            *("good", "mixed_float16", of_gan(4096, 64, (64, 32, 8), "float16"), ("good",)), marks=pytest.mark.long
        ),
        ("bad", "mixed_float16", of_gan(4090, 63, (63, 31, 7), "float16"), ("bad",)),
    ],
)
def test_gan(sizes: str, precision: str, expected: Multiset, measured: tuple[str, ...]) -> None:
    pytest.importorskip("tensorflow")
    (model,) = trace(
        TraceRequest(GAN, run=True, argv=("--sizes", sizes, "--precision", precision), python=warm.python())
    )
    assert expected.total() == 49
    assert of_audit(model, expected) == expected
    for name in measured:
        ns = Step(model, Target(find_gpu("a100-sxm-40"), "cublas11", tf32=name != "float32")).ns
        assert ns is not None
        # products are a part of what was measured; the likely time is up to a quarter above all of it
        assert ns.low < 1e6 * BUSY[name]
        assert ns.mid < 1.3e6 * BUSY[name]
        assert ns.high > 0.5e6 * BUSY[name]


def _keras_model(path: Path, name: str) -> Any:
    values: dict[str, Any] = {"__name__": "model"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), values)
    return values[name]() if name.startswith("make_") else values[name]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("script", "name", "traced", "products"),
    [
        ("sequential_guide.py", "model", False, 8),
        ("autoencoder_nested.py", "autoencoder", False, 20),
        ("autoencoder_nested.py", "autoencoder", True, 20),
        ("residual_blocks.py", "make_model", True, 26),
    ],
)
def test_models_of_the_styles(script: str, name: str, traced: bool, products: int) -> None:
    pytest.importorskip("keras", minversion="3.0")
    path = STYLES / script
    models = trace(TraceRequest(path, python=warm.python())) if traced else read_model(read_source(path))
    (model,) = models
    expected = of_keras(_keras_model(path, name), model.batch)
    assert of_audit(model, expected) == expected
    assert expected.total() == products


@pytest.mark.tensorflow
def test_an_application(tmp_path: Path) -> None:
    pytest.importorskip("keras", minversion="3.0")
    path = tmp_path / "application.py"
    path.write_text(
        "import keras\nmodel = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)\n"
    )
    (model,) = trace(TraceRequest(path, python=warm.python()))
    expected = of_keras(_keras_model(path, "model"), BATCH)
    assert expected.total() == 161  # 54 layers; the first takes the image
    assert of_audit(model, expected) == expected


@pytest.mark.tensorflow
def test_a_transformer() -> None:
    pytest.importorskip("keras", minversion="3.0")
    (model,) = trace(TraceRequest(STYLES / "transformer.py", python=warm.python()))
    products, rows = Products(), BATCH * 256
    for _ in range(2):
        for _ in "qkvo":
            products.one("forward", rows, 768, 768)
            products.one("dgrad", rows, 768, 768)
            products.one("wgrad", 768, 768, rows, open_=True)
        for pass_, n, k in (("forward", 256, 64), ("dgrad", 64, 256), ("dgrad", 64, 256)):
            products.one(pass_, 256, n, k, BATCH * 12)
        for pass_, n, k in (("forward", 64, 256), ("dgrad", 256, 64), ("dgrad", 64, 256)):
            products.one(pass_, 256, n, k, BATCH * 12)
        products.dense(rows, 768, 2731)
        products.dense(rows, 2731, 768)
    products.dense(rows, 768, 50257)
    assert of_audit(model, products.found) == products.found


def guide(path: Path = STYLES / "sequential_guide.py", units: int = 4090) -> Model:
    """Return TensorFlow's guide model with other units."""
    text = path.read_text(encoding="utf-8").replace("4090", str(units))
    (model,) = read_model(parse_source(text, path.name))
    return model


@pytest.mark.parametrize("gpu", ["a100-sxm-40", "h100-sxm", "l40s", "v100-sxm2", "t4", "gtx-1660", "p100"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("library", ["cublas10", "cublas12"])
@pytest.mark.parametrize("xla", [False, True])
def test_a_step_is_the_sum_of_its_products_and_a_saving_what_they_lose(
    gpu: str, dtype: str, library: str, xla: bool
) -> None:
    model = guide()
    model = replace(model, products=tuple(replace(p, compiled=xla) for p in model.products))
    target = Target(find_gpu(gpu), library, xla=xla)  # type: ignore[arg-type]
    step = Step(model, target, dtype)
    costs = [op_cost(p.record, target, dtype, xla) for p in model.products]
    assert step.ns is not None and all(cost is not None for cost in costs)
    launches = sum(cost.launch_ns for cost in costs if cost is not None)
    low, mid, high = (sum(getattr(cost, name) for cost in costs) for name in ("low_ns", "ns", "high_ns"))
    assert step.ns.mid == pytest.approx(mid + launches)
    # unlike products do not all err one way: the range of a step is narrower than theirs end to end
    assert low <= step.ns.low * (1 + 1e-9) and step.ns.low <= mid
    assert mid + launches <= step.ns.high <= (high + launches) * (1 + 1e-9)
    # both layers of 4090 made 4096: the same model written with 4096 from the start
    good = [op_cost(p.record, target, dtype, xla) for p in guide(units=4096).products]
    after = sum(cost.ns for cost in good if cost is not None)
    changes = [
        c for layer in ("dense_1", "dense_2") for c in step.link(LinkedChange(layer, "units", 4090, 4096)).changes
    ]
    saved = step.saving(changes)
    assert saved is not None and saved.low <= saved.mid <= saved.high <= step.ns.high
    assert saved.mid == pytest.approx(step.ns.mid - launches - after, abs=1e-6 * step.ns.mid)
