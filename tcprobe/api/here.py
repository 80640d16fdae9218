"""`tcprobe.profile` and `tcprobe.KerasCallback`: profile training in this process.

The cell magic ``%%tcprobe``: profile a cell of a notebook, which is one training step.
"""

from __future__ import annotations

import os
import shlex
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcprobe.api.arguments import names_arguments
from tcprobe.api.profile import Profile
from tcprobe.errors import TcprobeError, UsageError

if TYPE_CHECKING:
    from tcprobe.capture.here.recorder import Recorder


@names_arguments
def profile(
    function: Callable[[], Any],
    *,
    steps: int = 10,
    timed: int = 20,
    warmup: int = 10,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    target_gpu: str | None = None,
) -> Profile:
    """Call a function again and again, each call one training step, and report on the steps.

    The first `warmup` calls count nowhere, the next `timed` are timed without the profiler, the last `steps` are taken
    under TensorFlow's. What `tcprobe report` shows of the run folder is the same.

    Args:
        function: one training step; what it returns is not looked at.
        steps, timed, warmup: how many calls of each kind.
        output: the run folder; None derives a name below ``tcprobe-runs``.
        force: replace an earlier run folder.
        target_gpu: GPU for which a run without one is judged.

    Raises:
        TcprobeError: TensorFlow is not installed, a profiler session is open, or the folder cannot be written.
        Exception: what the function raises; the folder then stays, marked as partial.
    """
    from tcprobe.analysis import Options
    from tcprobe.capture.here.recorder import Recorder, Window
    from tcprobe.flows.report import make_report
    from tcprobe.foreign import output_path

    path = None if output is None else output_path(output)
    recorder = Recorder.make(Window(warmup, timed, steps), getattr(function, "__name__", "function"), path, force)
    folder: Path | None = None
    complete = False
    try:
        while not recorder.is_over:
            with recorder.step():
                function()
        complete = True
    finally:
        folder = recorder.finish(failed=not complete)
    assert folder is not None  # a window has a step
    return Profile(make_report(folder, Options(target_gpu=target_gpu)), folder)


def KerasCallback(  # noqa: N802 - a class to its users, made when Keras is there
    steps: int = 10,
    *,
    timed: int = 20,
    warmup: int = 10,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Any:
    """Return a callback for ``model.fit`` that profiles some of its batches; afterwards it has `profile`.

    Batches count from the start of training, validation apart; with ``steps_per_execution`` each call is one step.
    A training of fewer batches than the window takes has fewer of each kind, and a note says how many; one that ends
    sooner than Keras knew leaves what there is, marked as partial if it failed. What keeps the callback from recording
    does not stop the training: `profile` raises it.

    Args:
        steps: batches under the profiler.
        timed: batches timed without it before these.
        warmup: batches before all, which count nowhere.
        output: the run folder; None derives a name below ``tcprobe-runs``. It is made when training begins.
        force: replace an earlier run folder.

    Raises:
        TcprobeError: TensorFlow is not installed, or `output` exists.
    """
    from tcprobe.capture.here.recorder import Recorder, Window
    from tcprobe.foreign import output_path

    path = None if output is None else output_path(output)
    recorder = Recorder.make(Window(warmup, timed, steps), "fit", path, force, of_fit=True)
    import tensorflow as tf

    class Callback(tf.keras.callbacks.Callback):  # type: ignore[misc, name-defined, unused-ignore]
        """Marks each batch as a step, and reports when the window is over."""

        def __init__(self) -> None:
            super().__init__()
            self.batches = _Batches(recorder)

        @property
        def profile(self) -> Profile | None:
            """The report; None until the window is over, or the training. Raises what kept it from being recorded."""
            return self.batches.profile

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras' signature
            self.batches.expect(_batches_left(self.params, epoch, self.model))

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            self.batches.begin()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            self.batches.end()

        def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
            self.batches.conclude()

    made = Callback()
    weakref.finalize(made, recorder.forget)
    return made


def _batches_left(params: Mapping[str, Any], epoch: int, model: Any) -> int | None:
    """Return how many calls of `on_train_batch_begin` a `fit` makes from an epoch on; None if Keras does not know."""
    batches, epochs = params.get("steps"), params.get("epochs")
    if batches is None or epochs is None:
        return None
    together = getattr(model, "steps_per_execution", None) or getattr(model, "_steps_per_execution", None)
    try:
        in_a_call = int(1 if together is None else together)  # a variable in Keras 2
    except (TypeError, ValueError):
        return None
    return (int(epochs) - epoch) * -(-int(batches) // max(in_a_call, 1))


class _Batches:
    """The steps of a recorder as batches begin and end. Nothing is raised into the training."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._step: Any = None
        self._profile: Profile | None = None
        self._failure: TcprobeError | None = None

    @property
    def profile(self) -> Profile | None:
        """The report; None until there is one. A `fit` that raised is over, too."""
        if self._recorder.is_left or self._recorder.is_done:  # by a later recording, too
            self.conclude(failed=True)
        if self._failure is not None:
            raise self._failure
        return self._profile

    def expect(self, count: int | None) -> None:
        """Make the window fit into a training of so many batches; once it has begun it stays as it is."""
        if count is not None and not self._recorder.has_begun:
            self._recorder.expect(count)

    def begin(self) -> None:
        """Enter a step, until the window is over."""
        if self._profile is None and self._failure is None and not self._recorder.is_over:
            step = self._recorder.step()
            try:
                step.__enter__()
            except TcprobeError as error:
                self._failure = error
                self._recorder.finish(failed=True)
            else:
                self._step = step

    def end(self) -> None:
        """Leave the step; report after the last one."""
        if self._step is not None:
            step, self._step = self._step, None
            step.__exit__(None, None, None)
            if self._recorder.is_over:
                self.conclude()

    def conclude(self, failed: bool = False) -> None:
        """Write the folder and report on it; a second call does nothing."""
        from tcprobe.flows.report import make_report

        if self._profile is not None or self._failure is not None:
            return
        try:
            folder = self._recorder.finish(failed)
            self._profile = None if folder is None else Profile(make_report(folder), folder)
        except TcprobeError as error:
            self._failure = error


NUMBERS: Final = ("steps", "timed", "warmup")
TEXTS: Final = ("output", "target-gpu")
AS_IN: Final = f"as in %%tcprobe --steps 10; there are {', '.join(f'--{name}' for name in (*NUMBERS, *TEXTS))}, --force"


def load_ipython_extension(shell: Any) -> None:
    """Register the magic; IPython calls this for ``%load_ext tcprobe``."""

    def tcprobe(line: str, cell: str) -> Profile:
        """Call the cell again and again as one training step, and show the report on it."""
        code = compile(shell.transform_cell(cell), "<cell>", "exec")
        return profile(lambda: exec(code, shell.user_ns), **_options(line))

    shell.register_magic_function(tcprobe, "cell")


def _options(line: str) -> dict[str, Any]:
    """Return the arguments of `tcprobe.profile` that a line gives.

    Raises:
        UsageError: it gives another, or a value that it cannot have.
    """
    found: dict[str, Any] = {}
    words = iter(shlex.split(line))
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if word == "--force":
            found["force"] = True
            continue
        value = value if equals else next(words, "")
        if not word.startswith("--") or name not in (*NUMBERS, *TEXTS) or not value:
            raise UsageError(f"%%tcprobe {line}: {word} makes no sense here", AS_IN)
        if name in NUMBERS and not value.isdecimal():
            raise UsageError(f"%%tcprobe {line}: {value!r} is no number", AS_IN)
        found[name.replace("-", "_")] = int(value) if name in NUMBERS else value
    return found
