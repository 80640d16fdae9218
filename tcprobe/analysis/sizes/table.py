"""The bad_sizes table: dimensions of layers that are not aligned, as the rules on sizes find them, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import isqrt
from typing import Any, Final

from tcprobe.analysis.sizes.run import JudgedStep, RecordedStep, run_model
from tcprobe.cost.alignment import published_pct
from tcprobe.gemm.record import next_size
from tcprobe.rules.model.bad import Bad, convolves
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.model.sizes import INPUTS
from tcprobe.rules.model.step import Step
from tcprobe.rules.sizes.findings import Effect, effect, passes_of
from tcprobe.rules.words import BOUND
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.kinds import GAINLESS, HARMLESS, SIXTEEN_BIT, Limit, RateBasis, SizeAdvice, SizeAdviceKind
from tcprobe.schema.tables import BAD_SIZES

_BEST_LEFT: Final[Mapping[str, SizeAdviceKind]] = {"channels": "image", "units": "small_head"}
_IDLE: Final[Mapping[str, SizeAdviceKind]] = {
    "no_tensor_cores": "no_tensor_cores",
    "no_tensor_cores_for": "off_tensor_cores",
    "plain_float32": "float32",
    "float64": "float64",
    "fits_tf32": "tf32_aligned",
}
_LIMITS: Final[Mapping[str, Limit]] = {why: limit for limit, why in BOUND.items()}


def build_bad_sizes(judged: JudgedStep) -> Table:
    """Return one row per layer, dimension and size that is not aligned, costliest first.

    Without a graph, the shapes of the profile itself tell, where it is certain which dimensions are features.

    The batch is never listed: it is no contiguous dimension of any pass. An op outside any layer stands under
    its own name, once, in its forward pass.

    Args:
        judged: the products of a step, of which some tell sizes, and what they cost.
    """
    made = _Rows(judged.run, judged.step)
    rows = [made.row(bad) for bad in settled_sizes(judged.step)]
    _name_images(rows)
    rows.sort(key=_weight)
    return Table.from_rows(BAD_SIZES, rows)


class _Rows:
    """Makes the rows of the bad sizes of a run."""

    def __init__(self, run: RecordedStep, step: Step) -> None:
        self._run, self._step = run, step
        listed = [t for t in run.timed if t.product.layer or t.product.record.pass_ in ("forward", "other")]
        self._flops = sum(timed.flops or 0 for timed in listed)
        self._bounded = any(timed.at_least for timed in run.whole)  # then the whole is more than is known
        self._at_most = self._bounded or any(timed.flops is None for timed in listed)
        self._first: dict[str, Row] = {}
        for timed in listed:
            self._first.setdefault(timed.product.layer or timed.product.op, timed.row)

    def row(self, bad: Bad) -> Row:
        """Return the row of one size."""
        known = bad.dimension
        first = self._first[known.layer]
        times = [time for index in known.products if (time := self._run.timed[index].spent) is not None]
        advice = advice_on(self._step, bad, measured=bool(times))
        row: Row = {
            "layer": known.layer,
            "layer_class": first["layer_class"],
            "dimension": known.name,
            "size": known.size,
            "next_size": bad.suggested or next_size(known.size, bad.multiple),
            "multiple": bad.multiple,
            "passes": ", ".join(passes_of(self._step, known.products)) or None,
            "dtype": bad.dtype,
            "source": first["source"] or first.get("called_from"),
            "basis": self._run.basis,
            **advice.columns(),
            **self._shares(bad, times),
        }
        saved = {} if advice.kind in GAINLESS else self._saved(bad)
        predicted = bool(saved) or advice.rate_basis in ("predicted", "estimated")
        return {**row, **saved, **(self._constants(bad) if predicted else {})}

    def _constants(self, bad: Bad) -> Row:
        """Return whose constants the saving and the rates rest on."""
        constants = self._step.constants_of(bad.dimension.products)
        return {} if constants is None else {"predicted_for": constants.gpu, **constants.columns()}

    def _shares(self, bad: Bad, times: list[int]) -> Row:
        whole = self._run.kernel_ns
        known = [self._run.timed[index] for index in bad.dimension.products]
        touched = 100.0 * sum(timed.flops or 0 for timed in known)
        counts = self._flops and not any(timed.flops is None or timed.at_least for timed in known)
        return {
            "kernel_ns": sum(times) if times else None,
            "share_pct": 100.0 * sum(times) / whole if times and whole else None,
            "flops_pct": touched / self._flops if counts else None,
            "flops_at_most": self._at_most if counts else None,
        }

    def _saved(self, bad: Bad) -> Row:
        known = (self._run.timed[index] for index in bad.dimension.products)
        if bad.saved is None or (bad.recorded_ns is None and any(timed.at_least for timed in known)):
            return {}
        basis = self._step.basis_of(bad.dimension.products)
        return {
            "saving_low_ns": round(bad.saved.low),
            "saving_ns": round(bad.saved.mid),
            "saving_high_ns": round(bad.saved.high),
            "saving_pct": self._saved_pct(bad),
            "saving_basis": basis if bad.recorded_ns is None else f"measured x {basis}",
        }

    def _saved_pct(self, bad: Bad) -> float | None:
        """Return the likely saving over all kernel time where it is measured, else over the predicted products."""
        if bad.recorded_ns is not None and self._run.kernel_ns:
            return 100.0 * (bad.recorded_ns / self._run.kernel_ns)
        whole = None if self._bounded else self._whole.ns
        return 100.0 * bad.saved.mid / whole.mid if bad.saved and whole and whole.mid else None

    @cached_property
    def _whole(self) -> Step:
        """The step with all products, those included whose dimensions have no names."""
        if len(self._run.whole) == len(self._run.timed):
            return self._step
        return Step(run_model(self._run.whole), self._step.gpu)


def _weight(row: Row) -> tuple[bool, float, float, float, int, str, str, int]:
    """Return what rows are sorted by; the rate of large products of such a size is 100 where it is no basis."""
    cost, saved, flops = (-float(row.get(c) or 0) for c in ("kernel_ns", "saving_ns", "flops_pct"))
    rate = int(row["rate_low_pct"] or 0) if row["rate_basis"] in ("published", "published products") else 100
    place = str(row["layer"]), str(row["dimension"]), int(row["size"] or 0)
    return row["advice_kind"] in HARMLESS, cost, saved, flops, rate, *place


def _name_images(rows: list[Row]) -> None:
    """Units that become an image's channels must be changed through these: of square images of 4 x 4 or more."""
    channels = {int(row["size"] or 0) for row in rows if row["dimension"] == "channels"}
    for row in rows:
        if row["dimension"] != "units" or row["advice_kind"] in ("free", "measured_free"):
            continue
        size = int(row["size"] or 0)
        pixels = {c: size // c for c in channels if c > 4 and size % c == 0}
        fits = [c for c, count in pixels.items() if count >= 16 and isqrt(count) ** 2 == count]
        row["image_channels"] = max(fits, default=None)


def advice_on(step: Step, bad: Bad, measured: bool) -> SizeAdvice:
    """Return what to do about a size.

    Args:
        step: the costs.
        bad: the size.
        measured: kernels of its products were timed, so that no prediction makes their cost nothing.
    """
    if bad.fixed is not None:
        return SizeAdvice("fixed")
    if bad.code == "TC104":
        return SizeAdvice(_BEST_LEFT.get(bad.dimension.name, "small_dimension"))
    does = effect(step, bad)
    gpu: Any = does.says.get("gpu")
    if does.says.kind in _IDLE:
        return SizeAdvice(_IDLE[does.says.kind], gpu=gpu)
    if bad.code == "TC103":
        return SizeAdvice("small_dimension") if bad.is_depthwise else _rated(step, bad, does, measured)
    if bad.is_image:
        return SizeAdvice("slice" if bad.linked else "slice_in_vain")
    return _published(step, bad) if bad.saved is None else _rated(step, bad, does, measured)


def _rated(step: Step, bad: Bad, does: Effect, measured: bool) -> SizeAdvice:
    """Return how far below an aligned product's rate its products are predicted to run."""
    if does.free:
        return SizeAdvice("measured_free" if measured else "free", limit=_LIMITS[does.says.kind])
    fields: dict[str, Any] = dict(does.says.fields)
    if does.says.kind == "off_tensor_cores":
        return SizeAdvice("off_tensor_cores", gpu=fields["gpu"])
    if does.says.kind != "slower":
        return _published(step, bad)
    padded = step.padding_pct(bad.dimension.products)
    return SizeAdvice(
        _worth(bad),
        gpu=fields["gpu"],
        rate_low_pct=fields["low_pct"],
        rate_high_pct=fields["high_pct"],
        rate_basis="estimated" if fields["estimated"] else "predicted",
        xla_pads=fields["padded"],
        padding_may_lose=None if padded is None else padded.low <= 0,
    )


def _worth(bad: Bad) -> SizeAdviceKind:
    if bad.code == "TC103":
        return "fewer_groups"
    return "change_before" if bad.dimension.name in INPUTS else "change"


def _published(step: Step, bad: Bad) -> SizeAdvice:
    """Return the rate of large products of such a size, where no size of the product's own tells."""
    half = bad.dtype in SIXTEEN_BIT
    if not half and bad.dtype not in ("float32", "float"):
        return SizeAdvice(_worth(bad))
    gpu, rate = published_pct(bad.dimension.size, "tc16" if half else "tf32", step.gpu.compute_capability)
    basis: RateBasis = "published products" if convolves(step, bad.dimension) else "published"
    return SizeAdvice(_worth(bad), gpu=gpu.name, rate_low_pct=rate, rate_high_pct=rate, rate_basis=basis)
