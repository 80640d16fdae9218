"""Tell the framework of a run by the ops that ran kernels, where the source does not name it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tcprobe.rules.run.words import Framework, framework_of
from tcprobe.schema.profile import Profile

_TYPES: Final[dict[Framework, re.Pattern[str]]] = {
    "pytorch": re.compile(r"(?:aten|c10d)::\w+"),
    "tensorflow": re.compile(
        r"Resource(?:Sparse)?Apply\w+|(?:Assign\w*|Read)VariableOp|_Fused(?:Conv2D|MatMul)|FusedBatchNorm(?:Grad)?V\d"
        r"|(?:Depthwise)?Conv[23]D(?:Native)?Backprop\w+|BiasAddGrad|_?XlaRun"
    ),
}
"""Types of ops that no other framework has. ONNX has MatMul and Conv too: they tell nothing."""
_JAX: Final = re.compile(r"(?:p?jit|pmap|xmap)\(")
"""How JAX begins the names of what it compiles: ``jit(train_step)/jit(main)/dot_general``."""


def framework(profile: Profile) -> Framework | None:
    """Return what the user's code is written with; None where neither the source nor the ops tell, or ops disagree."""
    named = framework_of(profile.metadata.framework)
    if named is not None or profile.metadata.framework is not None:
        return named
    found = set(_of_ops(profile))
    return found.pop() if len(found) == 1 else None


def _of_ops(profile: Profile) -> Iterator[Framework]:
    """Yield the frameworks of which an op ran kernels; of ops without kernels, a loader of data may have run some."""
    ops = profile.require("ops")
    ran = ops.take(ops.numbers("sum_ns") > 0)
    for name, pattern in _TYPES.items():
        if any(pattern.fullmatch(str(op_type)) for op_type in set(ran.names("op_type").tolist())):
            yield name
    if any(_JAX.match(str(op)) for op in set(ran.names("op").tolist())):
        yield "jax"
