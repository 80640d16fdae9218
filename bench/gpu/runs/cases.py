"""What is run: the packaged workload in each arithmetic, with good sizes and bad ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from workloads.train_gan import SIZES

Kind = Literal["profile", "plain", "nvtx"]
"""Under `tcprobe profile`; without tcprobe; under `nsys profile tcprobe profile`."""
WORKLOAD: Final = "train_gan"
DRY_BATCH: Final = {"good": 4, "bad": 3}
DRY_STEPS: Final = 40
"""On the CPU: up to 14 until the window begins, 20 in it, a few after it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way to run the workload.

    Attributes:
        precision: of `tcprobe profile --precision`.
        sizes: good or bad, the workload's own.
        loss_scale: of the workload's `--loss-scale`; None leaves that to it.
        xla: whether XLA is asked for.
        window: first and last step to profile; None leaves them to tcprobe.
    """

    precision: str
    sizes: str = "good"
    loss_scale: str | None = None
    xla: bool = False
    window: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """Return it as part of a unit's name."""
        scale = () if self.loss_scale is None else ("loss-scale", self.loss_scale)
        steps = () if self.window is None else ("steps", *map(str, self.window))
        return "-".join((WORKLOAD, self.precision, self.sizes, *scale, *(("xla",) * self.xla), *steps)).replace(
            "_", "-"
        )

    def batch(self, dry: bool) -> int:
        """Return the batch size with which it runs on a GPU, or on a dry run."""
        return DRY_BATCH[self.sizes] if dry else SIZES[self.sizes].batch

    def options(self) -> list[str]:
        """Return the options that `tcprobe profile` and the workload both have."""
        return ["--precision", self.precision, *["--xla"][: int(self.xla)]]

    def asked(self) -> list[str]:
        """Return all options of `tcprobe profile`."""
        first, last = map(str, self.window or ("", ""))
        return [*self.options(), *(["--iter-start", first, "--iter-stop", last] if self.window else [])]

    def words(self, dry: bool) -> list[str]:
        """Return the words that stand behind the workload's name."""
        sizes = [] if self.sizes == "good" else ["--sizes", self.sizes]
        scale = [] if self.loss_scale is None else ["--loss-scale", self.loss_scale]
        small = ["--batch-size", str(self.batch(dry)), "--steps", str(DRY_STEPS)] if dry else []
        return [*sizes, *scale, *small]


FIRST: Final = Case("tf32")
SCALED: Final = Case("mixed_float16")
TRACED: Final = Case("mixed_float16", window=(12, 15))
"""Its raw trace is kept: of a few steps, so that it is small."""
PLAN: Final[tuple[tuple[Kind, Case], ...]] = (
    ("profile", FIRST),
    ("profile", SCALED),
    ("plain", SCALED),
    ("profile", TRACED),
    ("profile", Case("mixed_float16", "bad")),
    ("profile", Case("float32")),
    ("nvtx", SCALED),
    ("profile", Case("mixed_bfloat16")),
    ("plain", FIRST),
    ("profile", Case("mixed_float16", xla=True)),
    ("profile", Case("tf32", "bad")),
    ("profile", Case("mixed_bfloat16", "bad")),
    ("profile", Case("float32", "bad")),
    ("plain", Case("mixed_float16", xla=True)),
    ("profile", Case("mixed_float16", loss_scale="none")),
    ("profile", Case("tf32", xla=True)),
    ("profile", Case("mixed_float16", "bad", xla=True)),
    ("plain", Case("float32")),
    ("plain", Case("mixed_bfloat16")),
)
"""Most valuable first."""
FURTHER: Final[tuple[tuple[Kind, Case], ...]] = (("profile", FIRST), ("profile", SCALED), ("plain", FIRST))
"""Of each further version of TensorFlow."""


def plan(versions: list[str]) -> Iterator[tuple[int, Kind, Case, str]]:
    """Yield the place of a version in `versions`, what to run in it, and the unit's name."""
    for place, version in enumerate(versions):
        for kind, case in FURTHER if place else PLAN:
            ahead = "" if kind == "profile" else f"{kind}-"
            yield place, kind, case, f"{ahead}{case.name}" + (f"-tf{version}" if place else "")
