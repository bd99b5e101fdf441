"""Attention in JAX: cuDNN's kernels where they apply, products and a softmax elsewhere.

cuDNN takes bfloat16 and float16 on a GPU, without a mask tensor. JAX offers its forward and its
gradient as one differentiable function, so the forward returns, in place of log Σ exp, the function
that computes the gradient. Inside one compiled program that is as good as an array.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradwalk.compiler.backends.xla import platform
from gradwalk.compiler.backends.xla.forwards.linear import matmul, wide_matmul
from gradwalk.compiler.backends.xla.forwards.promotion import wide

MOST_WIDE = 256  # numbers of a head, for cuDNN


class Pullback:
    """The gradient of one attention, inside one compiled program.

    As an array, if it leaves the program, it is NaN, and the gradient is computed from scratch.
    """

    def __init__(self, function: Any, shape: tuple[int, ...]) -> None:
        self.function = function
        self.shape = shape

    def __jax_array__(self) -> Any:
        return jnp.full(self.shape, math.nan, jnp.float32)


def forward(query: Any, key: Any, value: Any, *, scale: float, causal: bool) -> tuple[Any, Any]:
    """The result, and log Σ exp of the scores or the function that computes the gradient."""
    if _has_kernel(query, key, value):
        out, pull = jax.vjp(_cudnn(scale, causal), query, key, value)
        return out, Pullback(pull, query.shape[:-1])
    # The products are divided, not the weights: (time × width) numbers, not (time × time).
    scores = _scores(query, key, scale, causal)
    top = jnp.max(scores, axis=-1, keepdims=True)
    e = jnp.exp(scores - top)
    total = jnp.sum(e, axis=-1, keepdims=True)
    out = wide_matmul(e.astype(value.dtype), value) / total
    return out.astype(value.dtype), (jnp.log(total) + top)[..., 0]


def backward(
    g: Any, query: Any, key: Any, value: Any, out: Any, log_sum: Any, *, scale: float, causal: bool
) -> tuple[Any, Any, Any]:
    """The gradients of query, key and value."""
    if isinstance(log_sum, Pullback):
        return log_sum.function(g)
    if _has_kernel(query, key, value):
        return jax.vjp(_cudnn(scale, causal), query, key, value)[1](g)
    scores = _scores(query, key, scale, causal)
    weights = jnp.exp(scores - log_sum[..., None])
    along = jnp.sum(wide(g) * wide(out), axis=-1, keepdims=True)
    back = (weights * (wide_matmul(g, value.mT) - along) * scale).astype(query.dtype)
    halved = weights.astype(value.dtype)
    return matmul(back, key), matmul(back.mT, query), matmul(halved.mT, g)


def _scores(query: Any, key: Any, scale: float, causal: bool) -> Any:
    """(..., queries, keys), at least in float32."""
    scores = wide_matmul(query, key.mT) * scale
    if causal:
        seen = jnp.tri(*scores.shape[-2:], dtype=bool)
        scores = scores + jnp.where(seen, 0, -jnp.inf).astype(scores.dtype)  # NaN stays NaN
    return scores


def _has_kernel(query: Any, key: Any, value: Any) -> bool:
    """Whether cuDNN has one."""
    widths = {query.shape[-1], key.shape[-1], value.shape[-1]}
    return (
        query.dtype in (jnp.bfloat16, np.float16)
        and platform.traced_for.get() == "cuda"
        and query.ndim == 4
        and len(widths) == 1
        and query.shape[-1] % 8 == 0
        and query.shape[-1] <= MOST_WIDE
    )


def _cudnn(scale: float, causal: bool) -> Any:
    """cuDNN's attention on (batch, heads, time, width); it takes (batch, time, heads, width)."""

    def attention(*three: Any) -> Any:
        turned = (x.swapaxes(1, 2) for x in three)
        out = jax.nn.dot_product_attention(
            *turned, scale=scale, is_causal=causal, implementation="cudnn"
        )
        return out.swapaxes(1, 2)

    return attention


FORWARDS: dict[str, Any] = {
    "attention": lambda *three, **attrs: forward(*three, **attrs)[0],
    "attention_forward": forward,
    "attention_backward": backward,
}
