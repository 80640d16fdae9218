"""The bad_sizes table: dimensions of layers that are not aligned, as the rules on sizes find them in a run."""

from __future__ import annotations

from functools import cached_property
from math import isqrt

from tcprobe.analysis.sizes.advice import advice_on
from tcprobe.analysis.sizes.run import JudgedStep, RecordedStep, run_model
from tcprobe.gemm.alignment import next_size
from tcprobe.rules.model.bad import Bad
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.model.step import Step
from tcprobe.rules.sizes.words import passes_of
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.kinds import GAINLESS, HARMLESS
from tcprobe.schema.tables import BAD_SIZES


def build_bad_sizes(judged: JudgedStep | None) -> Table | None:
    """Return one row per layer, dimension and size that is not aligned, costliest first.

    Without a graph, the shapes of the profile itself tell, where it is certain which dimensions are features; None
    where no shape tells.

    The batch is never listed: it is no contiguous dimension of any pass. An op outside any layer stands under
    its own name, once, in its forward pass.

    Args:
        judged: the products of a step and what they cost; None where no shape of any is known.
    """
    if judged is None or not judged.run.tells_sizes:
        return None
    rows = _Rows(judged.run, judged.step).made()
    _name_images(rows)
    rows.sort(key=_weight)
    return Table.from_rows(BAD_SIZES, rows)


def _line(row: Row) -> Value:
    """Return where a product's layer was constructed; of one outside any layer, where it was called."""
    return row.get("called_from") if row["source"] is None and row["layer"] is None else row["source"]


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

    def made(self) -> list[Row]:
        """Return them in the order of the step."""
        return [self._row(bad) for bad in settled_sizes(self._step)]

    def _row(self, bad: Bad) -> Row:
        known = bad.dimension
        times = [time for index in known.products if (time := self._run.timed[index].spent) is not None]
        advice = advice_on(self._step, bad, measured=bool(times))
        row: Row = {
            "layer": known.layer,
            "layer_class": self._first[known.layer]["layer_class"],
            "dimension": known.name,
            "size": known.size,
            "next_size": bad.suggested or next_size(known.size, bad.multiple),
            "multiple": bad.multiple,
            "passes": ", ".join(passes_of(self._step, known.products)) or None,
            "dtype": bad.dtype,
            "source": _line(self._first[known.layer]),
            "basis": self._run.basis,
            **advice.columns(),
            **self._shares(bad, times),
        }
        saved = {} if advice.kind in GAINLESS else self._saved(bad)
        predicted = bool(saved) or advice.rate_basis in ("predicted", "estimated")
        return {**row, **saved, **(self._constants(bad) if predicted else {})}

    def _constants(self, bad: Bad) -> Row:
        """Return whose constants the saving and the rates rest on."""
        found = self._step.constants_of(bad.dimension.products)
        return {} if found is None else {"predicted_for": found.gpu, **found.columns()}

    def _shares(self, bad: Bad, times: list[int]) -> Row:
        whole = self._run.kernel_ns
        known = [self._run.timed[index] for index in bad.dimension.products]
        touched = 100.0 * sum(timed.flops or 0 for timed in known)
        told = self._flops and not any(timed.flops is None or timed.at_least for timed in known)
        return {
            "kernel_ns": sum(times) if times else None,
            "share_pct": 100.0 * sum(times) / whole if times and whole else None,
            "flops_pct": touched / self._flops if told else None,
            "flops_at_most": self._at_most if told else None,
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
    cost, saved, flops = (-float(row.get(c) or 0) for c in ("kernel_ns", "saving_ns", "flops_pct"))
    return (
        row["advice_kind"] in HARMLESS,
        cost,
        saved,
        flops,
        _published_rate(row),
        str(row["layer"]),
        str(row["dimension"]),
        int(row["size"] or 0),
    )


def _published_rate(row: Row) -> int:
    """Return the rate of large products of such a size, 100 where it was predicted or is not known."""
    published = row["rate_basis"] in ("published", "published products")
    return int(row["rate_low_pct"] or 0) if published else 100


def _square(pixels: int) -> bool:
    """Return whether so many pixels make a square image of at least 4 x 4, as a generator's first one is."""
    return pixels >= 16 and isqrt(pixels) ** 2 == pixels


def _name_images(rows: list[Row]) -> None:
    """Units that become an image's channels must be changed through these."""
    channels = {int(row["size"] or 0) for row in rows if row["dimension"] == "channels"}
    for row in rows:
        if row["dimension"] != "units" or row["advice_kind"] in ("free", "measured_free"):
            continue
        size = int(row["size"] or 0)
        fits = [c for c in channels if c > 4 and size % c == 0 and _square(size // c)]
        row["image_channels"] = max(fits, default=None)
