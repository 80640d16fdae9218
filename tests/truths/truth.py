"""The truth of a style, as its script states it in comments that begin with ``#:``.

A layer's comment stands on the line that constructs it, or directly above:

    layers.Dense(4),  #: net/out 32x32x4: forward, 2 dgrad, wgrad

says that `net/out` makes four products a step, each of 2 * 32*32*4 FLOPs: the factors are those of the multiplication
(rows, contraction, columns; of a convolution batch, output pixels, filters, taps, input channels). In a loop the times
that it runs stand before: ``10*32x8x64`` are ten executions of 32x8x64. ``-`` is a product outside any layer: its line
is that of the call. ``nothing`` instead of passes: a layer without products.

Words in brackets restrict a comment: ``[phase 1]``, ``[keras 2]``, ``[tf 2.4]``, or several: ``[keras 3, phase 0]``.
``[shape 2]`` holds for steps of that shape: such a style prints the number of each step's, ``shapes 0 2 1 ...``, in the
line before the last, and its figures are means over the counted steps.

A comment on a line of its own near the top speaks of the whole run: ``#: said REGEX`` (a note matches it), ``#: unknown
steps, products`` (what cannot be known and must be said), ``#: bound`` (FLOPs are a lower bound and said to be one),
``#: bench only``, ``#: cold`` (not in a fork of a process that has imported TensorFlow), ``#: fails on 2.4`` (there
without the probe too).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

MARK = re.compile(r"#: (?:\[(?P<when>[^]]+)\] )?(?P<text>.+)$")
PRODUCTS = re.compile(r"(?P<layer>\S+) (?:(?P<times>[\d*]+)\*)?(?P<factors>\d+(?:x\d+)+): (?P<passes>.+)$")
SILENT = re.compile(r"(?P<layer>\S+): nothing$")
PASS = re.compile(r"(?:(?P<count>\d+) )?(?P<name>forward|dgrad|wgrad|other)$")
OF_RUN = ("said ", "unknown ", "bound", "bench only", "cold", "fails on ")


@dataclass(frozen=True, slots=True)
class Products:
    """Equal products of a layer in one step.

    Attributes:
        layer: path of the layer, ``-`` for none.
        line: where it is constructed, or the call of what has no layer.
        kind: forward, dgrad, wgrad, other.
        count: executions in a step.
        flops: FLOPs of all of them.
        phase: the phase whose steps make them; None for all phases.
        shape: number of the shapes of the steps that make them; None for all steps.
    """

    layer: str
    line: int
    kind: str
    count: int
    flops: int
    phase: int | None
    shape: int | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """What a script says of itself under one version of TensorFlow.

    Attributes:
        products: of a step.
        silent: layers without products.
        said: what a note must match; empty where no note is due.
        unknown: figures that cannot be known.
        bound: the FLOPs are a lower bound.
        fails: the script fails without the probe too.
    """

    products: tuple[Products, ...]
    silent: frozenset[str]
    said: tuple[str, ...]
    unknown: frozenset[str]
    bound: bool
    fails: bool

    def of_phase(self, phase: int) -> tuple[Products, ...]:
        """Return the products of a step of that phase."""
        return tuple(p for p in self.products if p.phase in (None, phase))

    def flops(self, phase: int, shapes: tuple[int, ...] = ()) -> int:
        """Return the mean FLOPs of steps of that phase, in these shapes."""
        return round(sum(p.flops * share_of(p, shapes) for p in self.of_phase(phase)))


def share_of(products: Products, shapes: tuple[int, ...]) -> float:
    """Return the share of steps in these shapes that make some products."""
    return 1.0 if products.shape is None else shapes.count(products.shape) / max(len(shapes), 1)


def only_bench(script: Path) -> bool:
    """Return whether the style is too slow for the tests, or needs a process of its own kind."""
    return "#: bench only\n" in script.read_text(encoding="utf-8")


def only_cold(script: Path) -> bool:
    """Return whether the style needs an interpreter started anew: flags read at the import, processes of its own."""
    return "#: cold\n" in script.read_text(encoding="utf-8")


def read_truth(script: Path, tensorflow: str, keras: str) -> Truth:
    """Return what a script states for these versions (``2.15.1``, ``2.15.0``)."""
    products: list[Products] = []
    silent, said, unknown = set(), [], set()
    bound = fails = False
    for line, when, text in _marks(script):
        words = [w.split() for w in when.split(", ")] if when else []
        if not all(_holds(word, tensorflow, keras) for word in words):
            continue
        if text.startswith("said "):
            said.append(text.removeprefix("said "))
        elif text.startswith("unknown "):
            unknown |= set(text.removeprefix("unknown ").split(", "))
        elif text.startswith("fails on "):
            fails |= any(_is(tensorflow, v) for v in text.removeprefix("fails on ").split(", "))
        elif text == "bound":
            bound = True
        elif silence := SILENT.match(text):
            silent.add(silence["layer"])
        elif text not in ("bench only", "cold"):
            phase, shape = (next((int(w[1]) for w in words if w[0] == kind), None) for kind in ("phase", "shape"))
            products += (replace(one, shape=shape) for one in _products(text, line, phase, script))
    return Truth(tuple(products), frozenset(silent), tuple(said), frozenset(unknown), bound, fails)


def _marks(script: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line that each comment speaks of, its restriction, and its text."""
    waiting: list[tuple[str, str]] = []
    for number, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1):
        match = MARK.search(line)
        if match:
            waiting.append((match["when"] or "", match["text"]))
        if not line.lstrip().startswith("#") and (line.strip() or number == 1):
            yield from ((number, when, text) for when, text in waiting)
            waiting.clear()
        elif not line.strip():
            yield from ((number, when, text) for when, text in waiting if text.startswith(OF_RUN))
            waiting = [w for w in waiting if not w[1].startswith(OF_RUN)]


def _holds(word: list[str], tensorflow: str, keras: str) -> bool:
    kind, value = word
    if kind in ("phase", "shape"):
        return True
    return _is(tensorflow if kind == "tf" else keras, value)


def _is(version: str, wanted: str) -> bool:
    return f"{version}.".startswith(f"{wanted}.")


def _products(text: str, line: int, phase: int | None, script: Path) -> Iterator[Products]:
    match = PRODUCTS.match(text)
    if match is None:
        raise ValueError(f"{script.name}:{line}: not understood: {text}")
    times = math.prod(int(n) for n in match["times"].split("*")) if match["times"] else 1
    flops = 2 * math.prod(int(n) for n in match["factors"].split("x"))
    for part in match["passes"].split(", "):
        found = PASS.match(part)
        if found is None:
            raise ValueError(f"{script.name}:{line}: no pass: {part}")
        count = times * int(found["count"] or 1)
        yield Products(match["layer"], line, found["name"], count, count * flops, phase)
