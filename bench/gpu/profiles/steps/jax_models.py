"""The models as functions of JAX: weights in float32, products in another dtype, optimizers by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax, nn, random

from .base import DISCRIMINATOR, DROPOUT, GENERATOR, NOISE, RATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from .base import Sizes

    Begin = Callable[[], Any]
    Step = Callable[[Any], Any]
    """The state of training -> its next one, and the loss."""

IMAGES = ("NHWC", "HWIO", "NHWC")
tree_map = jax.tree_util.tree_map


def gan(dtype: Any, sizes: Sizes, own: str | None) -> tuple[Begin, Step]:  # noqa: ARG001 - as the transformer's
    """Return what begins and what steps the GAN: it updates the generator, then the discriminator."""

    def begin() -> Any:
        made, judge = _gan_weights()
        images = (0.5 + 0.5 * _scattered(sizes.batch, 28, 28, 1)).astype(dtype)
        state = {"key": random.PRNGKey(0), "made": made, "judge": judge, "images": images}
        return {**state, "moments": _moments(made), "squares": tree_map(jnp.zeros_like, judge)}

    def fake(weights: Any, critic: Any, key: Any) -> Any:
        noise, drop = random.split(key)
        image = _generate(weights, random.uniform(noise, (sizes.batch, NOISE), dtype, -1, 1))
        return _judge(critic, image.astype(dtype), drop)

    def generator_loss(weights: Any, critic: Any, key: Any) -> Any:
        return _cross_entropy(fake(weights, critic, key), 1.0)

    def discriminator_loss(critic: Any, weights: Any, key: Any, images: Any) -> Any:
        one, two = random.split(key)
        return 0.5 * (
            _cross_entropy(_judge(critic, images, one), 1.0) + _cross_entropy(fake(weights, critic, two), 0.0)
        )

    def step(state: Any) -> Any:
        key, one, two = random.split(state["key"], 3)
        loss, slopes = jax.value_and_grad(generator_loss)(state["made"], state["judge"], one)
        made, moments = _adam(state["made"], slopes, state["moments"], RATES[0])
        _, slopes = jax.value_and_grad(discriminator_loss)(state["judge"], made, two, state["images"])
        judge, squares = _rmsprop(state["judge"], slopes, state["squares"], RATES[1])
        new = {"key": key, "made": made, "judge": judge, "moments": moments, "squares": squares}
        return {**new, "images": state["images"]}, loss

    return begin, step


def _gan_weights() -> tuple[dict[str, Any], dict[str, Any]]:
    depth, first, second, third = GENERATOR
    made = {"dense": _dense(NOISE, 7 * 7 * depth)}
    for name, inputs, filters in (("a", depth, first), ("b", first, second), ("c", second, third), ("d", third, 1)):
        made[name] = {**_conv(inputs, filters), "scale": jnp.ones(inputs), "offset": jnp.zeros(inputs)}
    judge: dict[str, Any] = {}
    inputs = 1
    for name, filters in zip("abc", DISCRIMINATOR):  # noqa: B905 - Python 3.8
        judge[name], inputs = _conv(inputs, filters), filters
    judge["dense"] = _dense(inputs * 3 * 3, 1)
    return made, judge


def transformer(dtype: Any, sizes: Sizes, own: str | None) -> tuple[Begin, Step]:
    """Return what begins and what steps a transformer block between an embedding and a head.

    Args:
        dtype: of products.
        sizes: of the model.
        own: implementation of `jax.nn.dot_product_attention`; None lets JAX choose.
    """

    def begin() -> Any:
        weights = _block_weights(sizes)
        spread = _scattered(sizes.batch, sizes.tokens + 1)
        text = ((0.5 + 0.5 * spread) * (sizes.vocabulary - 1)).astype(jnp.int32)
        return {"weights": weights, "moments": _moments(weights), "text": text}

    def loss(weights: Any, text: Any) -> Any:
        logits = _block(weights, weights["embedding"][text[:, :-1]].astype(dtype), sizes, own).astype(jnp.float32)
        chosen = jnp.take_along_axis(logits, text[:, 1:, None], -1)[..., 0]
        return (nn.logsumexp(logits, -1) - chosen).mean()

    def step(state: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(state["weights"], state["text"])
        weights, moments = _adam(state["weights"], slopes, state["moments"], RATES[0], decay=0.01)
        return {"weights": weights, "moments": moments, "text": state["text"]}, value

    return begin, step


def _block_weights(sizes: Sizes) -> dict[str, Any]:
    width, words = sizes.width, sizes.vocabulary
    weights = {
        "embedding": _scattered(words, width) * 0.02,
        "qkv": _dense(width, 3 * width),
        "projection": _dense(width, width),
        "up": _dense(width, 4 * width),
        "down": _dense(4 * width, width),
        "head": _scattered(width, words) * 0.02,
    }
    for name in ("before", "between", "after"):
        weights[name] = {"scale": jnp.ones(width), "offset": jnp.zeros(width)}
    return weights


def _block(weights: Any, x: Any, sizes: Sizes, own: str | None) -> Any:
    split = (sizes.batch, sizes.tokens, sizes.heads, -1)
    parts = jnp.split(_apply(weights["qkv"], _normed(weights["before"], x, -1)), 3, -1)
    q, k, v = (part.reshape(split) for part in parts)
    x = x + _apply(weights["projection"], _attention(q, k, v, own).reshape(x.shape))
    x = x + _apply(weights["down"], nn.gelu(_apply(weights["up"], _normed(weights["between"], x, -1))))
    return _normed(weights["after"], x, -1) @ weights["head"].astype(x.dtype)


def _attention(q: Any, k: Any, v: Any, own: str | None) -> Any:
    if hasattr(nn, "dot_product_attention"):
        return nn.dot_product_attention(q, k, v, is_causal=True, implementation=own)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores).astype(v.dtype), v)


def _generate(weights: Any, noise: Any) -> Any:
    x = _apply(weights["dense"], noise).reshape(noise.shape[0], 7, 7, -1)
    for name in "abc":
        x = jnp.tanh(_convolve(weights[name], _normed(weights[name], x, (0, 1, 2))))
        if name != "c":
            x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
    return nn.sigmoid(_convolve(weights["d"], _normed(weights["d"], x, (0, 1, 2))).astype(jnp.float32))


def _judge(weights: Any, x: Any, key: Any) -> Any:
    for name, drop in zip("abc", random.split(key, 3)):  # noqa: B905 - Python 3.8
        x = jnp.tanh(_convolve(weights[name], x))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jnp.where(random.bernoulli(drop, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0).astype(x.dtype)
    return _apply(weights["dense"], x.reshape(x.shape[0], -1)).astype(jnp.float32)


def _scattered(*shape: int) -> Any:
    """Return numbers from -1 to 1 in no order, in a program that compiles faster than a generator's."""
    return jnp.sin(1e4 * jnp.arange(math.prod(shape), dtype=jnp.float32)).reshape(shape)


def _dense(inputs: int, units: int) -> dict[str, Any]:
    return {"kernel": _scattered(inputs, units) * inputs**-0.5, "bias": jnp.zeros(units)}


def _conv(inputs: int, filters: int) -> dict[str, Any]:
    kernel = _scattered(5, 5, inputs, filters) * (25 * inputs) ** -0.5
    return {"kernel": kernel, "bias": jnp.zeros(filters)}


def _apply(layer: Any, x: Any) -> Any:
    return x @ layer["kernel"].astype(x.dtype) + layer["bias"].astype(x.dtype)


def _convolve(layer: Any, x: Any) -> Any:
    kernel = layer["kernel"].astype(x.dtype)
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=IMAGES) + layer["bias"].astype(x.dtype)


def _normed(layer: Any, x: Any, axes: Any) -> Any:
    """Normalise over all axes but the last (batch), or over the last (layer)."""
    wide = x.astype(jnp.float32)
    mean, spread = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    return ((wide - mean) * lax.rsqrt(spread + 1e-3) * layer["scale"] + layer["offset"]).astype(x.dtype)


def _cross_entropy(logits: Any, label: float) -> Any:
    return (nn.softplus(logits) - label * logits).mean()


def _moments(weights: Any) -> dict[str, Any]:
    zeros = tree_map(jnp.zeros_like, weights)
    return {"count": jnp.zeros(()), "first": zeros, "second": tree_map(jnp.zeros_like, weights)}


def _adam(weights: Any, slopes: Any, moments: Any, rate: float, decay: float = 0.0) -> tuple[Any, dict[str, Any]]:
    count = moments["count"] + 1
    first = tree_map(lambda m, g: 0.9 * m + 0.1 * g, moments["first"], slopes)
    second = tree_map(lambda s, g: 0.999 * s + 0.001 * g * g, moments["second"], slopes)
    pace = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    changed = tree_map(lambda w, m, s: w - pace * m / (jnp.sqrt(s) + 1e-7) - rate * decay * w, weights, first, second)
    return changed, {"count": count, "first": first, "second": second}


def _rmsprop(weights: Any, slopes: Any, squares: Any, rate: float) -> tuple[Any, Any]:
    squares = tree_map(lambda s, g: 0.9 * s + 0.1 * g * g, squares, slopes)
    return tree_map(lambda w, g, s: w - rate * g / (jnp.sqrt(s) + 1e-7), weights, slopes, squares), squares
