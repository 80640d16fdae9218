"""The step that a run recorded, as a model with measured times: what the rules on sizes judge.

Make the products of a step those of another batch: of a run on a CPU that logs which one it would take on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.context import Context, Options
from tcprobe.analysis.ops.attribution import graph_record, profile_record
from tcprobe.analysis.ops.gemms import Gemms, executions
from tcprobe.analysis.ops.table import Ops
from tcprobe.analysis.summary.rates import not_of_steps
from tcprobe.cost.predict import Target
from tcprobe.gemm.ops import family_of, gemms_of, is_convolution
from tcprobe.gemm.record import flops_of
from tcprobe.gemm.resize import tells_features
from tcprobe.gemm.torch import multiplies
from tcprobe.rules.model.step import KnownGpu, ProductTime, Step
from tcprobe.schema.columns import Row
from tcprobe.schema.model import Layer, Model, Product
from tcprobe.schema.op import OpRecord, Shape
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of

FAMILIES: Final = ("matmul", "conv", "conv_dgrad", "conv_wgrad")
LOGGED: Final = ("cpu_batch", "gpu_batch")
"""Figures that a workload logs: the batch that it takes here, without a GPU, and the one that it would take on one."""


def gpu_batch(profile: Profile) -> tuple[int, int] | None:
    """Return the batch of a run without a GPU, and the one that it would take on one; None where it logs no such."""
    metrics = profile.require("metrics")
    names = metrics.names("name")
    found = [metrics.numbers("value")[names.among(name)] for name in LOGGED]
    if profile.metadata.gpu_used is not False or not all(len(values) for values in found):
        return None
    here, there = (float(values[-1]) for values in found)
    whole = here.is_integer() and there.is_integer() and here >= 1 and there >= 1
    return (int(here), int(there)) if whole else None


def with_batch(product: Product, old: int, new: int) -> Product:
    """Return a product with another batch: the leading dimension of all but the weights.

    Raises:
        ValueError: which of its dimensions is the batch is not known.
    """
    record = product.record
    if family_of(record.op_type) not in FAMILIES or record.pass_ not in ("forward", "dgrad", "wgrad"):
        raise ValueError(f"{record.op_type}: not known which dimension is the batch")
    inputs = tuple(
        shape if _is_weight(record, index) else _scaled(shape, old, new)
        for index, shape in enumerate(record.input_shapes)
    )
    output = record.output_shape if record.pass_ == "wgrad" else _scaled(record.output_shape, old, new)
    return replace(product, record=replace(record, input_shapes=inputs, output_shape=output))


def _is_weight(record: OpRecord, index: int) -> bool:
    """Return whether an input is weights, or the sizes of a gradient, which are a list."""
    shape = record.shape(index)
    if shape is None or len(shape) < 2:
        return True
    return index == 1 and record.pass_ != "wgrad" and (is_convolution(record.op_type) or len(shape) == 2)


def _scaled(shape: Shape | None, old: int, new: int) -> Shape | None:
    if shape is None or not shape:
        return shape
    if shape[0] is None or shape[0] % old:
        raise ValueError(f"{shape}: the first dimension is no multiple of the batch {old}")
    return (shape[0] // old * new, *shape[1:])


class RunProduct(Struct, frozen=True):
    """One product of a run."""

    product: Product  # what it multiplies
    row: Row  # of `graph_ops`, or of `ops` where there is no graph: class and source of its layer
    flops: int | None  # of a step, None where unknown
    spent: int | None = None  # kernel time within the window, ns, summed over GPUs; None where it was not measured
    gpus: int = 1  # number of GPUs that each ran it
    # whether it may run more often in a step than its product says, which counts an unknown number as one
    at_least: bool = False
    number: int = -1  # of the row of `graph_ops`, or of `op_details`, that says what it multiplies


class RecordedStep(Struct, frozen=True, dict=True):
    """The products of one step of a run."""

    timed: Sequence[RunProduct]  # those whose dimensions have names
    whole: Sequence[RunProduct]  # all of them, whatever their dimensions are
    kernel_ns: float | None  # all kernel time of the window; None where nothing was measured
    steps: float | None  # that the window holds; None where that is not known, or the time is not that of whole steps
    basis: str  # graph or shape

    @property
    def tells_sizes(self) -> bool:
        """Whether it is known of some product which of its dimensions are features."""
        return self.basis == "graph" or len(self.timed) > 0

    @cached_property
    def every(self) -> Sequence[RunProduct]:
        """All of them, those of `timed` first and in their order."""
        if self.basis == "graph":
            return self.timed
        return [*self.timed, *(timed for timed in self.whole if not tells_features(timed.product.record))]

    @property
    def measured(self) -> dict[int, ProductTime]:
        """Time of one step of each product by its index, of those of which it is known."""
        if not self.kernel_ns or not self.steps:
            return {}
        return {
            index: ProductTime(timed.spent / timed.gpus / self.steps, timed.spent)
            for index, timed in enumerate(self.timed)
            if timed.spent is not None
        }


def run_of(profile: Profile, gemms: Gemms, ops: Ops | None, kernel_ns: float | None) -> RecordedStep | None:
    """Return the products of a run; None where there is no graph and the profile has no shapes of its own.

    Args:
        profile: holds the graph and the iterations, which are made.
        gemms: tells which rows of the graph count.
        ops: kernel time of each row, where measured.
        kernel_ns: all kernel time, None where nothing was measured.
    """
    steps = profile.counted_steps if not_of_steps(profile) is None else None
    if len(profile.require("graph_ops")):
        products = _of_graph(profile, gemms, ops)
        return RecordedStep(products, products, kernel_ns, steps, "graph")
    whole = _of_shapes(profile, gemms, ops)
    named = [_forward(timed) for timed in whole if tells_features(timed.product.record)]
    return RecordedStep(named, whole, kernel_ns, steps, "shape") if whole else None


class JudgedStep(Struct, frozen=True):
    """The products of one step of a run, and their costs on the GPU that sizes are judged for."""

    run: RecordedStep  # the products
    step: Step  # the costs of those whose dimensions have names
    batch: int | None = None  # that its products were made of, where that is not the run's own (`sizes.batch`)


def judged_step(
    profile: Profile, gemms: Gemms, ops: Ops | None, kernel_ns: float | None, gpu: KnownGpu
) -> JudgedStep | None:
    """Return the products of a run with their costs on a GPU; None where `run_of` is. It takes what `run_of` takes."""
    run = run_of(profile, gemms, ops, kernel_ns)
    if run is None:
        return None
    run, batch = _at_gpu_batch(profile, run)
    return JudgedStep(run, Step(run_model(run.timed), gpu, measured=run.measured), batch)


def _at_gpu_batch(profile: Profile, run: RecordedStep) -> tuple[RecordedStep, int | None]:
    """Return the products in the batch that a run without a GPU would take on one, where it logs that, and that."""
    batches = gpu_batch(profile)
    if batches is None or run.timed is not run.whole:
        return run, None
    try:
        timed = [replace(one, product=with_batch(one.product, *batches)) for one in run.timed]
    except ValueError:  # which dimension is the batch is not known of one of them
        return run, None
    return replace(run, timed=timed, whole=timed), batches[1]


def run_model(every: Sequence[RunProduct]) -> Model:
    """Return products and their layers as a model, without links and settings, which no profile has."""
    layers: dict[str, Layer] = {}
    for timed in every:
        if (name := timed.product.layer) is not None:
            kind = str(timed.row["layer_class"] or "")
            layers.setdefault(name, Layer(name, kind, kind))
    products = tuple(timed.product for timed in every)
    return Model("traced", "", "", layers=tuple(layers.values()), products=products, batch=0)


def known_gpu(context: Context, options: Options, compiled: bool) -> KnownGpu:
    """Return the GPU that sizes are judged for; its calibration is read when something is predicted.

    Args:
        context: what is known of it.
        options: give the calibration.
        compiled: whether XLA compiles the step.
    """
    gpu, tf32 = context.judged, context.tf32_allowed is not False
    cores = context.nvidia and context.tensor_cores != "no"
    if gpu is None:
        return KnownGpu(context.name, cores, context.compute_capability, tf32)
    target = cache(lambda: Target(gpu, xla=compiled, tf32=tf32, constants=options.constants(gpu)))
    return KnownGpu(context.name, cores, context.compute_capability, tf32, target)


def _of_graph(profile: Profile, gemms: Gemms, ops: Ops | None) -> list[RunProduct]:
    """Return the products of the graph that execute, or may."""
    graph = profile.require("graph_ops")
    spent, gpus = (ops.graph_ns, ops.graph_gpus) if ops else ({}, {})
    records = list(graph.rows())
    products: list[RunProduct] = []
    for number in gemms.graph_rows:
        row, time = records[number], spent.get(number)
        type_ = str(row["op_type"])
        if row["executes"] == "no" or (family_of(type_) is None and not multiplies(type_)):
            continue
        sure = row["executes"] == "yes" or time is not None
        calls = executions(row["calls_per_step"])
        product = _product(row, graph_record(graph, number), 1.0 if calls is None else calls, sure)
        more = calls is None or row["at_least"] is True
        products.append(replace(_timed(product, row, time, gpus.get(number, 1)), at_least=more, number=number))
    return products


def _of_shapes(profile: Profile, gemms: Gemms, ops: Ops | None) -> list[RunProduct]:
    """Return the products of the profile whose shapes it has."""
    if ops is None:
        return []
    details = profile.require("op_details")
    known = {(row["op"], row["op_type"]): row for row in ops.table.rows()}
    times: dict[int, Any] = dict(zip(gemms.records, gemms.table.values("kernel_ns"), strict=True))
    names, types = details.names("op"), details.names("op_type")
    products: list[RunProduct] = []
    for number, time in times.items():
        row = {**known[names[number], types[number]], "layer_class": None}
        product = _product(row, profile_record(details, number, text_of(row["pass"]), text_of(row["dtype"])))
        products.append(replace(_timed(product, row, time, ops.detail_gpus.get(number, 1)), number=number))
    return products


def _product(row: Row, record: Any, calls: float = 1.0, sure: bool = True) -> Product:
    return Product(record, text_of(row["layer"]), calls, str(row["op"]), sure=sure)


def _timed(product: Product, row: Row, spent: int | None, gpus: int) -> RunProduct:
    flops = flops_of(gemms_of(product.record))
    return RunProduct(product, row, None if flops is None else round(flops * product.calls), spent, gpus)


def _forward(timed: RunProduct) -> RunProduct:
    """Return a product that tells its features as one of the forward pass, where the profile names none."""
    record = timed.product.record
    return replace(timed, product=replace(timed.product, record=replace(record, pass_=record.pass_ or "forward")))
