"""What a framework must offer to have its steps recorded, and the sizes of the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

GAN = "gan"
TRANSFORMER = "transformer"
BFLOAT16, FLOAT16, TF32 = "bfloat16", "float16", "tf32"
NOISE = 100
GENERATOR = (64, 64, 32, 8)
"""Depth of the generator's first image, filters of its convolutions but the last: the good sizes of train_gan."""
DISCRIMINATOR = (24, 64, 128)
DROPOUT = 0.4
RATES = (1e-3, 1e-4)
"""Learning rates of Adam for the generator and of RMSprop for the discriminator."""


class Unusable(Exception):
    """A step cannot be recorded here; its text says what was found."""


class Sizes(NamedTuple):
    """Sizes of a model; those that it does not have are 0."""

    batch: int
    tokens: int = 0
    width: int = 0
    heads: int = 0
    vocabulary: int = 0


SIZES = {
    # GPT-2 medium's width and heads; fewer words than its 50,257, so that the logits fit into a small board's memory
    False: {GAN: Sizes(4096), TRANSFORMER: Sizes(8, 1024, 1024, 16, 16384)},
    True: {GAN: Sizes(2), TRANSFORMER: Sizes(2, 32, 64, 4, 128)},
}
"""By whether they are those of a rehearsal."""


class Session(Protocol):
    """A model in training, on one device.

    Attributes:
        precision: in which it multiplies, which may not be the one asked for.
        on_gpu: whether it runs on a GPU.
        notes: what is not as it was asked for, a sentence each.
    """

    precision: str
    on_gpu: bool
    notes: list[str]

    def step(self, number: int) -> Any:
        """Begin a training step, marked for a profiler as this one; return what `wait` takes."""

    def wait(self, begun: Any) -> None:
        """Return when a step has ended."""

    def sync(self) -> None:
        """Return when all that was begun has ended."""

    def peak_memory(self) -> int | None:
        """Return the most bytes of the GPU that tensors took at once; None where the framework does not say."""

    def recorded(self, folder: Path) -> AbstractContextManager[None]:
        """Run the framework's profiler; at the end it has written its trace below `folder`."""
