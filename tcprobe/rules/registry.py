"""All rules, each with the module that is loaded when it judges: TC1xx judge sizes, TC2xx precision, TC3xx runs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple


class Rule(NamedTuple):
    """One rule."""

    code: str
    name: str  # two to four words in kebab case
    module: str  # below this room; it defines a function of its code in lower case, and `SAYS` with all sentences
    fixable: bool = False  # whether `--fix` may correct what it finds

    def load(self) -> ModuleType:
        """Return its module."""
        return import_module(f"tcprobe.rules.{self.module}")

    def check(self, subject: Any) -> Iterator[Any]:
        """Yield its findings in a `Subject`; of a rule on runs its `Advice` on a `Run`."""
        found: Iterator[Any] = getattr(self.load(), self.code.lower())(subject)
        return found


RULES: Final = (
    Rule("TC101", "unaligned-dimension", "sizes.aligned", fixable=True),
    Rule("TC102", "batch-not-multiple-of-8", "sizes.tiles"),
    Rule("TC103", "unaligned-group", "sizes.aligned"),
    Rule("TC104", "image-channels-or-tiny-head", "sizes.aligned"),
    Rule("TC105", "unaligned-vocabulary", "sizes.aligned"),
    Rule("TC106", "unaligned-head", "sizes.aligned", fixable=True),
    Rule("TC107", "recurrent-layer-off-cudnn", "sizes.cudnn"),
    Rule("TC108", "too-small-for-the-gpu", "sizes.tiles"),
    Rule("TC109", "just-past-a-tile", "sizes.tiles"),
    Rule("TC201", "output-in-16-bits", "precision.dtypes", fixable=True),
    Rule("TC202", "float16-without-loss-scaling", "precision.scaling"),
    Rule("TC203", "fixed-or-doubled-loss-scale", "precision.scaling"),
    Rule("TC204", "float32-in-heavy-layer", "precision.dtypes", fixable=True),
    Rule("TC205", "policy-after-layers", "precision.order"),
    Rule("TC206", "gpu-lacks-precision", "precision.dtypes"),
    Rule("TC208", "gone-in-keras-3", "precision.gone", fixable=True),
    Rule("TC210", "needless-loss-scaling", "precision.scaling"),
)
"""What judges a model before it runs."""
RUN_RULES: Final = (
    Rule("TC301", "waiting-gpu", "run.waiting"),
    Rule("TC302", "autotuning-in-step", "run.steps"),
    Rule("TC303", "precision-off-tensor-cores", "run.precision"),
    Rule("TC304", "tf32-off", "run.precision"),
    Rule("TC305", "gpu-without-tensor-cores", "run.precision"),
    Rule("TC306", "sizes-cost-time", "run.sizes"),
    Rule("TC307", "few-filters", "run.sizes"),
    Rule("TC308", "kernel-of-library", "run.sizes"),
    Rule("TC309", "ops-not-named", "run.kernels"),
    Rule("TC310", "tiny-kernels", "run.kernels"),
    Rule("TC311", "transposes-and-casts", "run.kernels"),
    Rule("TC312", "dynamic-loss-scale", "run.steps"),
    Rule("TC313", "warm-up-counted", "run.steps"),
    Rule("TC314", "one-kernel-dominates", "run.kernels"),
    Rule("TC315", "batch-leaves-memory", "run.steps"),
    Rule("TC316", "key-node-per-epoch", "run.steps"),
    Rule("TC317", "sixteen-bits-pay", "run.precision"),
    Rule("TC318", "chain-of-kernels", "run.kernels"),
    Rule("TC319", "last-wave-empty", "run.kernels"),
    Rule("TC320", "misaligned-kernel", "run.kernels"),
    Rule("TC321", "loss-not-finite", "run.steps"),
)
"""What judges a run that was profiled."""
RETIRED: Final[dict[str, str]] = {
    "TC207": "it looked for constants that float16 cannot hold, and found none in 3,443 public files",
    "TC209": "it looked for sums and powers of 16-bit activations, and found none in 3,443 public files",
}
"""Code of a rule that is no more -> why. No other rule takes the code, and what silences it stays valid."""


def rule_of(code: str) -> Rule:
    """Return the rule with a code of these lists."""
    return next(rule for rule in (*RULES, *RUN_RULES) if rule.code == code)
