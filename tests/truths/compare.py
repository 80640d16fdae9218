"""Hold what tcprobe says of a run against the truth."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.truths.found import Found, Made, Said
from tests.truths.truth import Truth, share_of

State = Literal["right", "bound", "unknown", "wrong"]
OF_THE_MACHINE = ("few-steps",)
"""Warnings that come and go with the load of the machine: step times that deviate."""
FIGURES = ("steps", "phases", "FLOPs", "products", "layers", "notes")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure of one run.

    Attributes:
        figure: one of `FIGURES`.
        state: right; bound: a lower bound, said to be one; unknown: not known, and said so; wrong.
        text: the value, or what was found and what is true.
        allowed: the truth allows this state.
    """

    figure: str
    state: State
    text: str
    allowed: bool = True


def compare(
    script: Path, truth: Truth, found: Found, printed: tuple[int, ...], shapes: tuple[int, ...] = ()
) -> list[Verdict]:
    """Judge every figure.

    Args:
        script: the style.
        truth: what it states of itself.
        found: what tcprobe says.
        printed: steps of each phase, as the script counted them.
        shapes: number of those of each step, where they differ.
    """
    phase = _profiled(found, printed)
    shapes = tuple(shapes[step] for step in found.counted) if shapes else ()
    return [
        _steps(truth, found, printed),
        _phases(truth, found, printed, shapes),
        _flops(truth, found, phase, shapes),
        _products(truth, found, phase, shapes),
        _layers(script, truth, found, phase),
        _notes(truth, found),
    ]


def _profiled(found: Found, printed: tuple[int, ...]) -> int:
    """Return the phase that the figures are of: the one with most of the window, by the script's own count."""
    if found.window is None:
        return len(printed) - 1
    first, last = found.window
    begins = [sum(printed[:phase]) for phase in range(len(printed))]
    return max(range(len(printed)), key=lambda p: min(last + 1, begins[p] + printed[p]) - max(first, begins[p]))


def _steps(truth: Truth, found: Found, printed: tuple[int, ...]) -> Verdict:
    allowed = "steps" in truth.unknown
    if not found.steps:
        said = any("step" in note.message for note in found.notes)
        return Verdict("steps", "unknown" if said else "wrong", f"none for {sum(printed)}", allowed)
    if found.steps == sum(printed):
        return Verdict("steps", "right", str(found.steps))
    return Verdict("steps", "wrong", f"{found.steps} for {sum(printed)}")


def _phases(truth: Truth, found: Found, printed: tuple[int, ...], shapes: tuple[int, ...]) -> Verdict:
    true = "+".join(map(str, printed))
    if found.phases is None or (not found.phases and "steps" in truth.unknown):
        one = len(printed) == 1
        return Verdict("phases", "right" if one else "wrong", "-" if one else f"not told, for {true}")
    if found.phases != printed:
        return Verdict("phases", "wrong", f"{'+'.join(map(str, found.phases))} for {true}")
    for phase, flops in found.flops_of_phases.items():
        true_flops = truth.flops(phase, shapes)
        if not _same(flops, true_flops) and not (found.bound and flops < true_flops):
            return Verdict("phases", "wrong", f"phase {phase}: {flops} FLOP for {true_flops}")
    return Verdict("phases", "right", true)


def _same(flops: int, true: int) -> bool:
    """Return whether these are the same but for the rounding of each product's share of a step."""
    return abs(flops - true) <= 1e-6 * true


def _flops(truth: Truth, found: Found, phase: int, shapes: tuple[int, ...]) -> Verdict:
    true = truth.flops(phase, shapes)
    each = [truth.flops(phase, (shape,)) for shape in shapes]
    if found.flops is None:
        return Verdict(
            "FLOPs", "unknown" if found.reasons else "wrong", f"none for {true}", "products" in truth.unknown
        )
    if found.bound and found.flops <= true:
        return Verdict("FLOPs", "bound", f"at least {found.flops} for {true}", truth.bound)
    if each and not found.bound and (found.range or (found.flops, found.flops)) != (min(each), max(each)):
        return Verdict("FLOPs", "wrong", f"from {found.range} for {min(each)} to {max(each)}")
    if _same(found.flops, true):
        return Verdict("FLOPs", "right" if not truth.bound else "wrong", f"{found.flops}")
    return Verdict("FLOPs", "wrong", f"{found.flops} for {true}")


Sums = dict[tuple[str, str], tuple[float, float]]
"""Executions in a step and their FLOPs, by layer and pass."""


def _products(truth: Truth, found: Found, phase: int, shapes: tuple[int, ...]) -> Verdict:
    shares = [(p, share_of(p, shapes)) for p in truth.of_phase(phase)]
    true = _sums((p.layer, p.kind, p.count * share, p.flops * share) for p, share in shares if share)
    known = {p.layer for p in truth.products}
    least = _sums_of((m for m in found.made if m.executes == "yes"), known)
    most = _sums_of(found.made, known)
    if least == true == most:
        return Verdict("products", "right", f"{sum(count for count, _ in true.values()):g}")
    if any(m.flops is None or m.count is None for m in found.made) and _within(most, true):
        return Verdict("products", "unknown", "; ".join(_differences(most, true)), "products" in truth.unknown)
    if found.made and _within(least, true) and _within(true, most):
        return Verdict("products", "unknown", "; ".join(_differences(least, true)), False)
    if not found.made:
        return Verdict("products", "unknown" if found.reasons else "wrong", "none", "products" in truth.unknown)
    if found.bound and _within(most, true):
        return Verdict("products", "bound", "; ".join(_differences(most, true)), truth.bound)
    return Verdict("products", "wrong", "; ".join(_differences(most, true)))


def _sums_of(made: Iterable[Made], known: Iterable[str]) -> Sums:
    return _sums((_outer(m.layer, known), m.kind, m.count or 0, (m.flops or 0) * (m.count or 0)) for m in made)


def _outer(layer: str, known: Iterable[str]) -> str:
    """Return the layer of `known` that this one is or stands in (an LSTM's cell), else itself."""
    return max((k for k in known if f"{layer}/".startswith(f"{k}/")), key=len, default=layer)


def _sums(products: Iterable[tuple[str, str, float, float]]) -> Sums:
    sums: Sums = defaultdict(lambda: (0.0, 0.0))
    for layer, kind, count, flops in products:
        before = sums[layer, kind]
        sums[layer, kind] = (before[0] + count, before[1] + flops)
    return {key: (round(count, 6), round(flops, 1)) for key, (count, flops) in sums.items()}


def _within(least: Sums, most: Sums) -> bool:
    return all(key in most and value <= most[key] for key, value in least.items())


def _differences(found: Sums, true: Sums) -> Iterator[str]:
    for layer, kind in sorted({*found, *true}):
        a, b = found.get((layer, kind), (0, 0)), true.get((layer, kind), (0, 0))
        if a != b:
            flops = f" of {a[1]:g} FLOP for {b[1]:g}" if a[0] == b[0] else ""
            yield f"{layer} {kind} {a[0]:g} for {b[0]:g}{flops}"


def _layers(script: Path, truth: Truth, found: Found, phase: int) -> Verdict:
    known = {p.layer for p in truth.products} | truth.silent
    wrong = [
        f"no layer {name}" for name in sorted(found.layers) if not any(f"{k}/".startswith(f"{name}/") for k in known)
    ]
    lines: dict[str, set[str]] = defaultdict(set)
    for product in truth.of_phase(phase):
        lines[product.layer].add(f"{script.name}:{product.line}")
    for made in found.made:
        wrong += _misplaced(made, lines, script)
    state: State = "wrong" if wrong else "right"
    return Verdict("layers", state, "; ".join([*dict.fromkeys(wrong)][:4]) or str(len(lines)))


def _misplaced(made: Made, lines: dict[str, set[str]], script: Path) -> Iterator[str]:
    """Yield what is wrong about an op's line: the layer's, or of what has no layer that of the call."""
    layer = _outer(made.layer, lines)
    if layer not in lines:
        return  # wrong as a product
    line = made.source if made.layer != "-" else made.called_from
    name = line.rpartition("/")[2]
    if made.layer == "-" and made.kind != "forward":
        lines = {"-": {name}} if name.startswith(f"{script.name}:") else {"-": {"the call"}}
    if name not in lines[layer]:
        yield f"{layer} at {name or 'no line'} for {', '.join(sorted(lines[layer]))}"


def _notes(truth: Truth, found: Found) -> Verdict:
    def speaks(note: Said, text: str) -> bool:
        return bool(re.search(text, f"{note.code}: {note.message}"))

    missing = [text for text in truth.said if not any(speaks(note, text) for note in found.notes)]
    due = {*OF_THE_MACHINE, *(("no-steps",) if "steps" in truth.unknown else ())}
    told = [n for n in found.notes if n.level != "note" and n.code not in due]
    odd = [n for n in told if not any(speaks(n, text) for text in truth.said)]
    texts = [f"nothing said of {text}" for text in missing] + [f"said {n.code}: {n.message}" for n in odd]
    return Verdict("notes", "wrong" if texts else "right", "; ".join(texts) or str(len(truth.said)))
