"""Train through JAX: one program a step, compiled by XLA, bfloat16 products; its profiler writes an XSpace."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from .base import BFLOAT16, GAN, TF32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from .base import Sizes

WITHOUT_GRAPHS = {"xla_gpu_enable_command_buffer": ""}
"""Kernels are launched one by one: in a CUDA graph they lose the op that launched them."""
HASTY = {"xla_backend_optimization_level": 0}  # for a rehearsal on a CPU


class JaxSession:
    """JAX on its default device."""

    def __init__(self, model: str, precision: str, sizes: Sizes) -> None:
        self._jax: Any = importlib.import_module("jax")
        models: Any = importlib.import_module(__package__ + ".jax_models")
        self.notes: list[str] = []
        self.precision = precision
        self.on_gpu = sees_gpu()
        self._jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == TF32 else None)
        dtype = getattr(self._jax.numpy, BFLOAT16 if precision == BFLOAT16 else "float32")
        make = models.gan if model == GAN else models.transformer
        # the library's fused attention, which cuDNN has for half precision, is worth trying first
        fused = ["cudnn"] if model != GAN and self.on_gpu and precision == BFLOAT16 else []
        ways = [partial(self._compiled, make, dtype, sizes, own) for own in (*fused, None)]
        otherwise = "jax.nn.dot_product_attention runs as XLA's products, not cuDNN's"
        self._state, self._step = self._first(ways, otherwise)

    def _compiled(self, make: Any, dtype: Any, sizes: Sizes, own: str | None) -> tuple[Any, Callable[[Any], Any]]:
        begin, step = make(dtype, sizes, own)
        state = self._jax.jit(begin)()
        lowered = self._jax.jit(step, donate_argnums=0).lower(state)
        ways = [lambda: lowered.compile(compiler_options=WITHOUT_GRAPHS if self.on_gpu else HASTY), lowered.compile]
        compiled = self._first(ways, "this XLA may launch kernels as CUDA graphs")
        state, loss = compiled(state)  # some failures show only now
        loss.block_until_ready()
        return state, compiled

    def _first(self, ways: Sequence[Callable[[], Any]], otherwise: str) -> Any:
        """Return what the first way that works gives; note `otherwise` if that is not the first one."""
        for way in ways[:-1]:
            try:
                return way()
            except Exception as error:  # noqa: BLE001 - whatever one way raises, the next is tried
                self.notes.append(f"{otherwise}: {(str(error) or repr(error)).splitlines()[0][:200]}")
        return ways[-1]()

    def step(self, number: int) -> Any:
        with self._jax.profiler.StepTraceAnnotation("train", step_num=number):
            self._state, loss = self._step(self._state)
        return loss

    def wait(self, begun: Any) -> None:
        begun.block_until_ready()

    def sync(self) -> None:
        for array in self._jax.tree_util.tree_leaves(self._state):
            array.block_until_ready()

    def peak_memory(self) -> int | None:
        told = self._jax.devices()[0].memory_stats() if self.on_gpu else None
        return told.get("peak_bytes_in_use") if told else None

    @contextmanager
    def recorded(self, folder: Path) -> Iterator[None]:
        profiler = self._jax.profiler
        options = {}
        if hasattr(profiler, "ProfileOptions"):
            options["profiler_options"] = profiler.ProfileOptions()
            options["profiler_options"].python_tracer_level = 0  # calls of Python fill a trace, and nobody reads them
        profiler.start_trace(str(folder), **options)
        try:
            yield
        finally:
            profiler.stop_trace()


def sees_gpu() -> bool:
    """Return whether JAX uses a GPU."""
    return bool(importlib.import_module("jax").default_backend() == "gpu")


def open(model: str, precision: str, sizes: Sizes, root: Path) -> JaxSession:  # noqa: A001, ARG001 - as the others
    """Return a model in training through JAX."""
    return JaxSession(model, precision, sizes)
