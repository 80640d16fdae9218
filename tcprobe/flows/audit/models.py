"""Audit files one by one: find their models, apply the rules, and drop what comments suppress.

The models of a file that were traced are joined with what its source shows besides: no layer counts twice. A file that
is made to be endless, in time, depth or memory, costs itself and not the audit.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.cost.constants import load_constants
from tcprobe.errors import InputError, TcprobeError, UnreadableInput, UnsupportedVersion
from tcprobe.flows.audit.files import AuditFile, FailedFile
from tcprobe.flows.audit.judge import Judge, Unused, findings_in, silenced, told_once
from tcprobe.flows.audit.options import Choice, KnownFindings
from tcprobe.flows.write import Say
from tcprobe.hardware import Gpu
from tcprobe.progress import advance
from tcprobe.schema.finding import Audited, AuditReport, Finding
from tcprobe.schema.model import FixedBy, Layer, Model, Place, Product, Unseen

if TYPE_CHECKING:
    from tcprobe.source.source import Source

UNREACHED: Final = "importing the file does not construct it: --run runs the file as a script, --mode source reads it"
REST: Final = "the traced script was left before it came to these layers: they are read from the source"
UNSURE: Final = "behind the point where the script was left, lines that were traced may make layers of other sizes"
_Line: TypeAlias = tuple[str, int]
_NOWHERE: Final = ("", 0)
_Sizes: TypeAlias = tuple[int | None, int | None]


def with_fixed(model: Model, read: Sequence[Model]) -> Model:
    """Return a traced model with what its source shows: what sets layers' sizes, at their calls, and hidden GPUs.

    Where only their line is known, and the source shows that of some of its layers alone, nothing is said.
    """
    told: dict[Place | _Line, set[FixedBy | None]] = {}
    for layer in (layer for one in read for layer in one.layers):
        for where in (layer.place, _line(layer)):
            told.setdefault(where or _NOWHERE, set()).add(layer.fixed_by)
    layers = []
    for layer in model.layers:
        found = told.get(layer.place or _NOWHERE) or told.get(_line(layer), set())
        layers.append(replace(layer, fixed_by=next(iter(found))) if len(found) == 1 else layer)
    return replace(model, layers=tuple(layers), gpu_hidden=any(one.gpu_hidden for one in read))


def join(traced: Sequence[Model], read: Iterable[Model]) -> list[Model]:
    """Return the traced models of a file that was left before its end, and behind them what its source has besides."""
    rest, unsure = _besides(traced, read)
    if unsure:
        lines = ", ".join(map(str, unsure))
        traced = [replace(model, notes=(*model.notes, f"{UNSURE} ({lines}): they are not judged")) for model in traced]
    return [*traced, *(replace(model, notes=(*model.notes, REST)) for model in rest)]


def with_unreached(traced: Sequence[Model], read: Iterable[Model]) -> list[Model]:
    """Return the traced models of a file with its other layers, which were read, among what was not judged."""
    first, *others = traced
    layers = [layer for model in _besides(traced, read)[0] for layer in model.layers]
    unseen = [
        Unseen(f"{x.class_name} '{x.name}'", UNREACHED, x.place, x.name) for x in layers if _line(x)[0] == first.file
    ]
    return [replace(first, unseen=(*first.unseen, *unseen)), *others]


def _besides(traced: Iterable[Model], read: Iterable[Model]) -> tuple[list[Model], list[int]]:
    """Return what was read of layers that were not traced, and the lines of which it cannot be told what was traced.

    At a line that was traced, sizes that were not are those of another model that a function makes, if the source has
    those that were traced as well. If not, it is wrong about that line, or about what comes by it.
    """
    seen, known = _sizes_by_line(traced := list(traced)), _sizes_by_line(read := list(read))
    more = {line for line in seen if any(None not in sizes for sizes in known.get(line, set()) - seen[line])}
    for product in (product for model in traced for product in model.products):
        seen.setdefault(_line(product), set())
    unsure = {line for line in more if not seen[line] <= known[line]}
    rest = []
    for model in read:
        layers = [layer for layer in model.layers if _line(layer) not in seen]
        layers += [x for x in model.layers if _line(x) in more - unsure and _sizes(x) not in seen[_line(x)]]
        names = {layer.name for layer in layers}
        products = tuple(product for product in model.products if product.layer in names)
        unseen = tuple(u for u in model.unseen if u.place is not None and (u.place.file, u.place.line) not in seen)
        rest += [replace(model, layers=tuple(layers), products=products, unseen=unseen)] if layers else []
    return rest, sorted(line for _, line in unsure)


def _sizes_by_line(models: Iterable[Model]) -> dict[_Line, set[_Sizes]]:
    """Return which sizes the layers of each line have."""
    found: dict[_Line, set[_Sizes]] = {}
    for layer in (layer for model in models for layer in model.layers):
        found.setdefault(_line(layer), set()).add(_sizes(layer))
    return found


def _line(made: Layer | Product) -> _Line:
    return (made.place.file, made.place.line) if made.place is not None else _NOWHERE


def _sizes(layer: Layer) -> _Sizes:
    """Return the last sizes of what goes into a layer and what comes out."""
    shapes = (layer.input_shapes[0] if layer.input_shapes else None), layer.output_shape
    given, made = (shape[-1] if shape else None for shape in shapes)
    return given, made


GPUS_HIDDEN: Final = "the file hides all GPUs from itself, so that it trains on the CPU: findings are notes"
READ: Final = "It could not be traced, and was read from the source: %s"
MOST_SECONDS: Final = 8.0
"""Time of the processor to read, judge and mend a file; the largest of the files that people write take one second."""
AGAIN_SECONDS: Final = 1.0
"""Later it is told once more: what is raised while garbage is collected is lost."""
SPLIT_FILE: Final = "audit the file that builds the model by itself, or a part of it"


class PartialAudit(Struct):
    """The findings of an auditor so far, which another auditor can take over."""

    audited: list[Audited] = field(default_factory=list)  # the models
    # comments that silence nothing, with how often their file was read
    unused: Counter[Unused] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)  # how often each file was read
    edited: set[str] = field(default_factory=set)  # files that fixes edit
    inputs: set[str] = field(default_factory=set)  # names of inputs that the code leaves open, where shapes are given
    answered: set[str] = field(default_factory=set)  # names of given shapes that an input has

    def add(self, other: PartialAudit) -> None:
        """Take over the findings of another auditor."""
        self.audited += other.audited
        self.unused.update(other.unused)
        self.read.update(other.read)
        self.edited |= other.edited
        self.inputs |= other.inputs
        self.answered |= other.answered


class Auditor:
    """Audits files with the same options.

    Args:
        choice: the options in effect.
        gpu: to predict for.
        traced: whether files are traced.
        fall_back: told why, where the source is read of what could not be traced; None where a factory was named, and
            that is an error.

    Attributes:
        found: what was found so far; it grows with every file added.
        sources: the parsed files that fixes edit, by absolute path; for traced files all that took part.
    """

    def __init__(self, choice: Choice, gpu: Gpu, traced: bool, fall_back: Say | None = None) -> None:
        self._choice = choice
        self._traced = traced
        self._fall_back = fall_back
        self._judge = Judge(choice, gpu, load_constants(gpu))
        self.found = PartialAudit()
        self._known = KnownFindings(choice.known)
        self.sources: dict[str, Source] = {}

    def add(self, target: AuditFile) -> None:
        """Audit the models of a file.

        Raises:
            TcprobeError: the file cannot be audited; then nothing of it is kept.
        """
        # What is traced has run already: its user vouches for it.
        with within_limits(target.named, None if self._traced else MOST_SECONDS):
            self._add_models(target)

    def add_all(self, targets: Sequence[AuditFile]) -> list[FailedFile]:
        """Audit files; return the path of each that cannot be audited, and why."""
        failed = []
        for target in targets:
            try:
                self.add(target)
            except TcprobeError as error:
                failed.append((str(target.path), error.message.removeprefix(f"{target.named}: ")))
            advance()
        return failed

    def _add_models(self, target: AuditFile) -> None:
        from tcprobe.audit.source.model import foreign_to_tensorflow
        from tcprobe.audit.source.read import with_arguments

        path = str(target.path)
        try:
            sources = {path: self.sources.get(path) or _read(target, self._choice)}
        except _left_out(target) as error:
            self._leave_out(path, error.found)
            return
        models = self._models(target, sources[path])
        models[:1] = [_with_unread_cells(model, sources[path]) for model in models[:1]]
        if self._traced and not target.notebook:
            sources |= _others(models, {**self.sources, **sources}, target.tree)
            foreign = foreign_to_tensorflow(sources[path])
            models = [
                replace(with_arguments(model, sources), not_judged=foreign) if model.mode == "traced" else model
                for model in models
            ]
        hidden = any(model.gpu_hidden for model in models)
        if hidden:
            models = [replace(model, notes=(*model.notes, GPUS_HIDDEN)) for model in models]
        steps = [self._judge.step(model) for model in models]
        found = [findings_in(step, sources, [other for other in steps if other is not step]) for step in steps]
        if target.tree is not None:
            found = [_as_notes_in_tests(findings, path, target.tree) for findings in found]
        if hidden:
            found = [tuple(replace(f, severity="note") for f in findings) for findings in found]
        read = sources if self._traced else sources | _others(models, sources, target.tree)
        silent, unused = silenced(found, read, [u for model in models for u in model.unseen])
        if target.tree is None and not self._traced:  # of other files too little is judged
            read, unused = sources, tuple(u for u in unused if u[0].file in sources)
        known = self._known.among([f for findings in found for f in findings if f not in silent], path)
        audited = [self._judge.audited(s, f, silent, known) for s, f in zip(steps, found, strict=True)]
        count = max(sum(bool(a.products) for a in audited), 1)
        audited = [replace(a, steps=count) for a in audited]
        kept = [a for a in audited if a.layers or a.products or a.findings or a.suppressed or a.unseen or a.not_judged]
        edited = {e.place.file for a in audited for f in a.findings if f.fix is not None for e in f.fix.edits}
        inputs = {name for model in models for name in model.inputs}
        answered = {name for model in models for name in model.answered}
        self.found.add(PartialAudit(kept, Counter(unused), Counter(list(read)), edited, inputs, answered))
        self.sources |= {file: s for file, s in sources.items() if self._traced or file in edited}

    def _leave_out(self, path: str, reason: str) -> None:
        """Note a file of a folder that is none of ours."""
        model = Model("source", Path(path).name, path, unseen=(Unseen(Path(path).name, reason),))
        self.found.audited.append(self._judge.audited(self._judge.step(model), (), frozenset(), frozenset()))

    def take(self, part: PartialAudit) -> None:
        """Add what another auditor found in other files.

        Raises:
            TcprobeError: a file that fixes edit cannot be read any more.
        """
        from tcprobe.audit.source.read import read_source

        self.found.add(part)
        self.sources |= {file: read_source(file) for file in part.edited if file not in self.sources}

    def report(self, root: str, failed: tuple[FailedFile, ...]) -> AuditReport:
        """Return all audits; a comment is unused if it silences nothing for any audited file that includes its file."""
        found = self.found
        unused = tuple(u for u, count in found.unused.items() if count == found.read[u[0].file])
        return AuditReport(tuple(told_once(found.audited)), unused, failed, root)

    def _models(self, target: AuditFile, source: Source) -> list[Model]:
        read = self._read(target, source)
        if not self._traced or target.notebook:
            return read
        if self._fall_back is None:
            return [with_fixed(model, read) for model in self._trace(target, read)]
        return self._trace_or_read(target, read, self._fall_back)

    def _trace_or_read(self, target: AuditFile, read: list[Model], say: Say) -> list[Model]:
        """Trace a file, and read the source of what that did not reach.

        Raises:
            InputError: it cannot be traced, and its source holds no layer, or the user asked for a trace and the file
                is wrong.
        """
        wanted = self._choice.run or self._choice.mode == "traced"
        try:
            models = [with_fixed(model, read) for model in self._trace(target, read)]
        except InputError as error:
            if not _says_more(error, read, wanted):
                raise
            reason = error.message.removeprefix(f"{target.path}: ")
            say(f"{target.named}: shapes are read from the source alone: {reason}")
            return [replace(model, notes=(*model.notes, READ % reason)) for model in read]
        if not any(model.incomplete for model in models):
            return models if wanted else with_unreached(models, read)
        models = join(models, read)
        if models[-1].mode == "source":
            say(f"{target.named}: shapes of what was not run are read from the source")
        return models

    def _read(self, target: AuditFile, source: Source) -> list[Model]:
        from tcprobe.audit.source.read import read_steps

        # Precision may be set in files without layers; a file that names neither library is not ours.
        empty = Model("source", target.path.name, str(target.path))
        text = source.text if source.notebook is None else source.notebook.written
        ours = "keras" in text or "tensorflow" in text
        return read_steps(source, self._choice.batch_size) or [empty][: int(ours)]

    def _trace(self, target: AuditFile, read: Sequence[Model]) -> list[Model]:
        from tcprobe.audit.trace.traced import TraceRequest, trace

        choice = self._choice
        told = next((model for model in read if model.batch_known), None)
        models = trace(
            TraceRequest(
                file=str(target.path),
                factory=target.factory,
                args=choice.args,
                run=choice.run,
                first_step=choice.first_step,
                argv=choice.argv,
                batch=choice.batch_size,
                read_batch=told.batch if told else None,
                input_shapes=choice.input_shapes,
                gpu=self._judge.gpu,
                timeout_s=choice.timeout_s,
                python=choice.python,
            )
        )
        if told is None or not told.batch_by_default:
            return models
        rests = [model.own_step and model.incomplete and model.batch == told.batch for model in models]
        return [replace(m, batch_by_default=r) for m, r in zip(models, rests, strict=True)]


def _read(target: AuditFile, choice: Choice) -> Source:
    from tcprobe.audit.source.read import decode_source, read_source

    if target.content is not None:
        return decode_source(target.content, str(target.path), choice.input_shapes)
    return read_source(target.path, target.tree, choice.input_shapes, choice.argv)


def _left_out(target: AuditFile) -> tuple[type[InputError], ...]:
    """Return which failures only leave a file out: one of another language, and where a folder was named also one
    that is too long or too old.
    """
    from tcprobe.source.notebook import OtherLanguage
    from tcprobe.source.source import TooLong

    return (OtherLanguage,) if target.itself else (UnsupportedVersion, TooLong)


def _as_notes_in_tests(findings: tuple[Finding, ...], file: str, folder: str) -> tuple[Finding, ...]:
    """Return findings as notes that are in tests, or that a test found: what it builds is small and trains briefly."""
    from tcprobe.audit.severity import is_of_tests

    if is_of_tests(file, folder):
        return tuple(replace(finding, severity="note") for finding in findings)
    places = {f.place.file for f in findings if f.place is not None}
    tests = {place for place in places if is_of_tests(place, folder)}
    return tuple(replace(f, severity="note") if f.place and f.place.file in tests else f for f in findings)


def _with_unread_cells(model: Model, source: Source) -> Model:
    """Return a model of a notebook with the cells that could not be read among what was not judged."""
    if source.notebook is None:
        return model
    cells = [(Place(source.path, c.line, in_cell=source.in_cell(c.line)), c.reason) for c in source.notebook.unread]
    unread = tuple(Unseen(place.position.partition(":")[0], reason, place) for place, reason in cells)
    return replace(model, unseen=(*model.unseen, *unread))


def _others(models: Iterable[Model], known: Mapping[str, Source], tree: str | None) -> dict[str, Source]:
    """Return the other files whose code built layers or called ops; files that do not parse are left out."""
    from tcprobe.audit.source.read import read_source

    found: dict[str, Source] = {}
    places = [layer.place for model in models for layer in model.layers]
    places += [product.place for model in models for product in model.products]
    for file in dict.fromkeys(place.file for place in places if place is not None):
        try:
            found[file] = known.get(file) or read_source(file, tree)
        except TcprobeError:
            continue
    return found


def _says_more(error: InputError, read: Iterable[Model], wanted: bool) -> bool:
    """Return whether the source says more than that the file cannot be run: that it holds layers, or no model.

    Where the user wanted it to be run, only that of a file that raises does.
    """
    from tcprobe.audit.trace.traced import FileRaised, NoModel

    if wanted:
        return isinstance(error, FileRaised) and any(model.layers for model in read)
    return isinstance(error, NoModel) or any(model.layers or model.unseen or model.not_judged for model in read)


class OutOfTimeError(Exception):
    """A file has kept the processor for as long as it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Do something for at most so many seconds of this process's own time; waiting for others does not count.

    Only the main thread can be interrupted; in another one it takes as long as it takes.

    Raises:
        OutOfTimeError: it took longer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _expire)
    left = signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *left)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def within_limits(named: str, seconds: float | None) -> Iterator[None]:
    """Do something with a file that may be made to break what reads it, for at most `seconds`; None for any time.

    Raises:
        UnreadableInput: it takes more time, depth or memory than a file may.
    """
    try:
        with nullcontext() if seconds is None else at_most(seconds):
            yield
    except OutOfTimeError:
        raise UnreadableInput(named, f"is too much to judge: it takes more than {seconds:.0f} s", SPLIT_FILE) from None
    except RecursionError:
        raise UnreadableInput(named, "is nested too deeply to be judged") from None
    except MemoryError:
        raise UnreadableInput(named, "is too much to judge: memory ran out", SPLIT_FILE) from None


def _expire(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTimeError
