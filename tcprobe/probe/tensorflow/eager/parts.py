"""Cuts eager training into its parts and samples what each runs, until a whole step of them was seen twice alike.

A part begins with a tape or with an optimizer and lasts until the next one, so that the parts of a step hold all that
the step ran, products outside any tape too.
"""

from __future__ import annotations

from collections import Counter
from threading import get_ident
from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..graph.records import Record
from ..graph.shapes import GraphShape
from .sampler import MOST_PRODUCTS, EagerSampler, FlowOp

MOST_PARTS = 192  # recorded in one go: three of the longest periods that the core looks for
MOST_STRETCHES = 16
PATIENCE = 8  # parts of steps alike that are waited for one that came once, at first
IMPATIENCE = 4  # how many times longer after that one came again
SURE = 4  # steps alike that are believed where those before them, of the same lines, ran other products
VARIED = 16  # steps of the same lines that run other products each time, whose mean stands for all
TIMES_ALIKE = 3  # steps of the same ops in other sizes that are taken for alike
OTHER_SIZES = "an eager step works on other sizes each time: these sizes, and FLOPs of what has them, are unknown"

SOME_OTHER = (
    "%d of %d eager parts of training under the profiler worked on other sizes than those recorded before: FLOPs are"
    " those of the usual sizes"
)
UNCHECKED = (
    "what eager steps run is known of those recorded before the profiled window, two alike in a row; they call no layer"
    " of Keras, so that the sizes of later ones are not seen"
)
RARE = 10  # parts of which one in other sizes changes little, as the last batch of an epoch
VARIES = "eager steps run more products at one time than at another: what a step runs is the mean of %d steps in a row"

Label = Tuple[Any, ...]
"""What tells a part from others: its key, and of each gradient taken in it the first variable and their number."""


class Body(NamedTuple):
    """What a call of a part runs.

    Attributes:
        ops: records of its products.
        calls: how often it calls each tf.function, by the runtime's key.
        share: of the part's calls that run this; one part runs several where its lines serve several models.
    """

    ops: List[Record]
    calls: "Counter[Hashable]"
    share: float


class Part:
    """One call of a part.

    Attributes:
        key: the runtime's, of the part.
        name: as reports call it.
        label: see `Label`.
        trains: whether it is a part of training; a tape is one where its gradient is taken.
        begins: number of its first product in the sample, None where it is not recorded.
        products: those that it ran, once it is over.
        calls: tf.functions that were called.
        sizes: layers that were called under its tape, with the shapes that they took.
        structure: number of what its calls have in common whatever their sizes.
        essence: number of what tells what it ran from anything else.
    """

    def __init__(self, key: Hashable, name: str, trains: bool, begins: Optional[int]) -> None:
        self.key = key
        self.name = name
        self.label: Label = (key,)
        self.trains = trains
        self.begins = begins
        self.products: List[FlowOp] = []
        self.calls: "Counter[Hashable]" = Counter()
        self.sizes: Set[Any] = set()
        self.structure = self.essence = 0

    def compare(self, numbers: Dict[Any, int]) -> None:
        """Set `structure` and `essence`; `numbers` are those given so far to what is alike."""
        records = [op.record for op in self.products]
        ops = tuple((r["op_type"], r["layer"]) for r in records)
        sizes = str([(r["input_shapes"], r["output_shapes"], r["input_dtypes"]) for r in records])
        self.structure = numbers.setdefault((self.key, frozenset(self.calls.items()), ops), len(numbers))
        self.essence = numbers.setdefault((self.structure, sizes), len(numbers))


class Kept(NamedTuple):
    """What stands for a part: its name, the calls that were recorded, and the sizes in which they called layers."""

    name: str
    parts: List[Part]
    sizes: Set[Any]


class EagerParts:
    """Samples the parts of eager steps.

    Args:
        make: makes what records ops.
        keep: takes key, name and bodies of a part that was recorded.
        gaps: takes what could not be recorded.

    Attributes:
        sampler: what records just now, None at other times.
        closed: nothing is recorded any more.
        profiled: the profiled window is open, whose steps are held against those recorded before.
    """

    def __init__(
        self, make: Callable[[], EagerSampler], keep: Callable[[Hashable, str, List[Body]], None], gaps: Any
    ) -> None:
        self.sampler: Optional[EagerSampler] = None
        self._make = make
        self._keep = keep
        self._gaps = gaps
        self._thread = 0
        self._parts: List[Part] = []  # over, and recorded
        self._numbers: Dict[Any, int] = {}  # of parts that are alike, in this stretch
        self._part: Optional[Part] = None  # that runs
        self._settled: Dict[Hashable, Set[Label]] = {}
        self._wanted: Set[Label] = set()
        self._given_up: Set[Label] = set()
        self._patience = PATIENCE
        self._stretches = 0
        self._kept: Dict[Hashable, Kept] = {}
        self._others: Dict[Hashable, "Counter[bool]"] = {}  # parts in the window, by whether their sizes are others
        self.closed = self.profiled = False

    def begin(self, key: Hashable, name: str, owned: bool, trains: bool = True, eager: bool = True) -> None:
        """Begin a part.

        Args:
            key: the runtime's.
            name: as reports call it.
            owned: this thread is known to have the steps, so that what another began is none of them.
            trains: False for a tape, whose gradient may never be taken.
            eager: False for a tf.function, which is not looked at but for what runs after it.
        """
        if self.closed or (self._is_of_another() and not owned):
            return
        if self._is_of_another():
            self._abandon()
        self._end_part()
        sampler = self.sampler
        if sampler is not None:
            size, whole = self._step(), len(sampler.products) < MOST_PRODUCTS
            if size or not self._parts or not whole or len(self._parts) >= MOST_PARTS:
                self._end_stretch(size, whole)
        if self.sampler is None and eager and (self._wanted or key not in self._settled):
            self._begin_stretch()
        sampler = self.sampler
        self._part = Part(key, name, trains, None if sampler is None else len(sampler.products))

    def differentiated(self, sources: Any) -> None:
        """Note that the gradient of `sources` is taken in the part that runs."""
        if self._part is not None and not self._is_of_another():
            self._part.label += _identity(sources)
            self._part.trains = True

    def called(self, key: Hashable) -> None:
        """Note that a tf.function was called in the part that runs."""
        sampler = None if self._is_of_another() else self.sampler
        if self._part is not None and sampler is not None and not sampler.paused:
            self._part.calls[key] += 1

    def sized(self, layer: Any, shapes: Tuple[Any, ...]) -> None:
        """Note the shapes that a layer takes under the tape of the part that runs."""
        if self._part is not None and not self._is_of_another():
            self._part.sizes.add((id(layer), shapes))

    @property
    def takes_sizes(self) -> bool:
        """Whether anybody asks for the shapes that layers take."""
        return self.sampler is not None or self.profiled

    def window_closes(self) -> None:
        """Say where parts of the profiled window worked on other sizes; those that mostly do are unknown then."""
        self.profiled = False
        for key, counts in self._others.items():
            if counts[True] * RARE > sum(counts.values()):
                self._gaps.note("eager-sizes", OTHER_SIZES)
                name, parts, _ = self._kept[key]
                for op in (op for part in parts for op in part.products):
                    for shapes in ("input_shapes", "output_shapes"):
                        op.record[shapes][:] = [None for _ in op.record[shapes]]
                self._keep(key, name, _bodies(parts))
            elif counts[True]:
                self._gaps.note("eager-sizes", SOME_OTHER % (counts[True], sum(counts.values())), level="note")
        kept = self._kept.values()
        if self._others and not any(of.sizes for of in kept) and any(p.products for of in kept for p in of.parts):
            self._gaps.note("eager-sizes", UNCHECKED, level="note")
        self._others.clear()

    def pause(self, paused: bool) -> None:
        """Record nothing for a while, or go on."""
        if self.sampler is not None and not self._is_of_another():
            self.sampler.paused = paused

    def end(self) -> None:
        """End what is being recorded; what was not seen twice is as good as it gets."""
        if self.sampler is not None:
            self._end_part()
            self._end_stretch(self._step(), whole=False)

    def close(self, closed: bool) -> None:
        """End, and record nothing any more; or go on to record what has not been."""
        self.end()
        self.closed, self._part = closed, None

    def _is_of_another(self) -> bool:
        """Say whether a sample is taken in another thread."""
        return self.sampler is not None and self._thread != get_ident()

    def _abandon(self) -> None:
        """End a sample, and keep nothing of it."""
        if self.sampler is not None:
            self.sampler.stop()
        self.sampler, self._part, self._parts = None, None, []
        self._wanted.clear()

    # --- parts -------------------------------------------------------------------------------------------

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        kept = self._kept.get(part.key)
        if self.profiled and part.begins is None and part.trains and kept is not None:
            self._others.setdefault(part.key, Counter())[not part.sizes <= kept.sizes] += 1
        if part.begins is not None and self.sampler is not None:
            part.products = self.sampler.products[part.begins :]
            if part.trains:
                self._parts.append(part)
            elif self._parts:
                self._parts[-1].products += part.products
                self._parts[-1].calls.update(part.calls)
            if self._parts:
                self._parts[-1].compare(self._numbers)
        if not part.trains:
            self._settled.setdefault(part.key, set())
        elif part.label not in self._settled.get(part.key, ()):
            self._wanted.add(part.label)
            if part.label in self._given_up:
                self._given_up.discard(part.label)
                self._patience *= IMPATIENCE

    # --- steps -------------------------------------------------------------------------------------------

    def _step(self) -> int:
        """Return how many of the last parts are a whole step, or several; 0 while that is not known."""
        parts = self._parts
        same, like = [part.essence for part in parts], [part.structure for part in parts]
        labels = [part.label for part in parts]
        lines = next((size for size in range(1, len(parts) // 2 + 1) if _repeats(labels, size, 2)), 0)
        if lines and _repeats(labels, lines, VARIED) and len(set(like[-lines * VARIED :])) > lines:
            return lines * VARIED
        for size in range(1, len(parts) // 2 + 1):
            if _repeats(same, size, 2) or _repeats(like, size, TIMES_ALIKE):
                if self._varies(lines, size) and not _repeats(like, size, SURE):
                    continue
                missing = self._wanted - {part.label for part in parts[-size:]}
                if not missing or _repeats(like, size, 1 - -max(self._patience, 2 * size) // size):
                    self._given_up |= missing
                    return size
        return 0

    def _varies(self, lines: int, size: int) -> bool:
        """Say whether it may be chance that the last `size` parts are alike: those of the same lines ran others before.

        Args:
            lines: parts after which the lines repeat.
            size: parts after which what they run does.
        """
        last, labels = self._parts[-size:], [part.label for part in self._parts[-size:]]
        if size > lines > 0 and size % lines == 0 and _repeats(labels, lines, size // lines):
            return True
        known = {(part.label, part.structure) for part in last}
        before = self._parts[size : -2 * size]  # the first step may make variables
        return sum(part.label in labels and (part.label, part.structure) not in known for part in before) > 1

    # --- stretches ---------------------------------------------------------------------------------------

    def _begin_stretch(self) -> None:
        if self._stretches == MOST_STRETCHES:
            self._gaps.add("eager steps", "what they run changes too often: not all of it was recorded")
        self._stretches += 1
        if self._stretches <= MOST_STRETCHES:
            self._thread, self._parts, self._numbers = get_ident(), [], {}
            self.sampler = self._make()
            self.sampler.start()

    def _end_stretch(self, size: int, whole: bool) -> None:
        """End a sample; of the last part is not all known where it is not `whole`."""
        sampler, parts = self.sampler, self._parts
        self.sampler, self._parts = None, []
        if sampler is None:
            return
        sampler.stop()
        if len(sampler.products) >= MOST_PRODUCTS:
            self._gaps.add("eager steps", "a step runs more than %d products" % (MOST_PRODUCTS // 2))
        for part in parts:
            self._settled.setdefault(part.key, set()).update({part.label} - self._given_up)
        self._wanted.clear()
        if not whole and not size and any(part.label == parts[-1].label for part in parts[:-1]):
            parts = parts[:-1]
        self._keep_parts(parts, size)

    def _keep_parts(self, parts: List[Part], size: int) -> None:
        times = Counter(part.label for part in parts[-size:] if size)
        if len({(part.label, part.structure) for part in parts[-size:]}) > len(times) > 0:
            self._gaps.note("eager-products", VARIES % max(times.values()), level="note")
        chosen = [self._usual(parts, i, size) for i in range(size)] if size else parts
        of_step = {part.key for part in chosen}
        by_key: Dict[Hashable, List[Part]] = {}
        for part in [*chosen, *(part for part in parts if part.key not in of_step)]:
            by_key.setdefault(part.key, []).append(part)
        for key, found in by_key.items():
            self._kept[key] = Kept(found[0].name, found, set().union(*(part.sizes for part in found)))
            self._keep(key, found[0].name, _bodies(found))

    def _usual(self, parts: List[Part], place: int, size: int) -> Part:
        """Return what stood at one place of the last steps, without the sizes in which these differ."""
        seen = [parts[i] for i in range(len(parts) - size + place, -1, -size)][:TIMES_ALIKE]
        latest, others = seen[0], [part for part in seen if part.structure == seen[0].structure]
        if len({part.essence for part in others}) > 1:
            self._gaps.note("eager-sizes", OTHER_SIZES)
            for ops in zip(*(part.products for part in others)):
                for key in ("input_shapes", "output_shapes"):
                    latest_shapes = ops[0].record[key]
                    latest_shapes[:] = [_common(shapes) for shapes in zip(*(op.record[key] for op in ops))]
        return latest


def _common(shapes: Sequence[GraphShape]) -> GraphShape:
    """Return a shape with the sizes that several have in common, None for the others; None where their ranks differ."""
    if None in shapes or len({len(shape or ()) for shape in shapes}) > 1:
        return None
    return [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*(shape or () for shape in shapes))]


def _repeats(numbers: Sequence[Any], size: int, times: int) -> bool:
    """Return whether the last `size` numbers stand there several times in a row."""
    count = size * times
    return len(numbers) >= count and numbers[-count:-size] == numbers[size - count :]


def _identity(sources: Any) -> Tuple[Any, ...]:
    """Return what tells the variables of a gradient; nothing for tensors, which are others in every step."""
    listed = list(sources.values()) if isinstance(sources, dict) else sources
    listed = listed if isinstance(listed, (list, tuple)) else [listed]
    return ((id(listed[0]), len(listed)),) if len(listed) and hasattr(listed[0], "trainable") else ()


def _bodies(parts: Sequence[Part]) -> List[Body]:
    """Return what calls of one part ran, each once."""
    alike: Dict[Any, List[Part]] = {}
    for part in parts:
        alike.setdefault((part.label, part.essence), []).append(part)
    each = ((found[0], len(found) / len(parts)) for found in alike.values())
    return [Body([op.record for op in part.products], part.calls, share) for part, share in each]
