"""The training step of a character-level GPT, by hand.

Activations are (batch × time, width) matrices; attention reads the heads through views, which BLAS
accepts without a copy. Row sums are products with a column of ones: several times faster than
NumPy's sum over a short last dimension.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import erf

from .shared import AdamW, Array, Arrays, Buffers, Floor, cross_entropy

HEADS = 4
Saved = tuple[Array, ...]


class GptFloor(Floor):
    """Embeddings, pre-norm blocks, norm and an untied head; cross-entropy; AdamW."""

    def __init__(self, parameters: Arrays, rate: float) -> None:
        super().__init__(parameters)
        self.optimizer = AdamW(parameters, rate, decay=0.01)
        self.layers = sum(name.endswith("qkv.weight") for name in parameters)
        self.dtype = parameters["tokens.weight"].dtype
        self.buffers = Buffers()
        self.found: Arrays = {}  # the gradients of this step

    def gradients(self, inputs: Array, labels: Array) -> tuple[float, Arrays]:
        p = self.parameters
        batch, time = inputs.shape
        x = p["tokens.weight"][inputs]  # (batch, time, width)
        x += p["positions.weight"][:time]
        x = x.reshape(batch * time, -1)
        saved = [self.block(x, f"blocks.{layer}", batch) for layer in range(self.layers)]
        normed, norm = self.layer_norm(x, "norm")
        loss, g = cross_entropy(normed @ p["head.weight"].T, labels)

        self.found = {"head.weight": g.T @ normed}
        g = self.layer_norm_backward(g @ p["head.weight"], norm, "norm").copy()
        for layer in reversed(range(self.layers)):
            self.block_backward(g, saved[layer], f"blocks.{layer}", batch)
        positions = np.zeros_like(p["positions.weight"])
        positions[:time] = g.reshape(batch, time, -1).sum(0)
        # With so few different tokens, a matrix product sums rows faster than np.add.at.
        one_hot = np.zeros((batch * time, len(p["tokens.weight"])), g.dtype)
        one_hot[np.arange(batch * time), inputs.reshape(-1)] = 1
        self.found |= {"positions.weight": positions, "tokens.weight": one_hot.T @ g}
        return loss, self.found

    def block(self, x: Array, name: str, batch: int) -> tuple[Any, ...]:
        """Add attention and then the two linear layers to x; return what backward needs."""
        read, first_norm = self.layer_norm(x, f"{name}.first_norm")
        qkv = self.linear(read, f"{name}.attention.qkv")  # (batch × time, 3 × width)
        weights, mixed = self.attend(qkv, batch, name)
        x += self.linear(mixed, f"{name}.attention.project")
        seen, second_norm = self.layer_norm(x, f"{name}.second_norm")
        wide = self.linear(seen, f"{name}.mlp.0")  # (batch × time, 4 × width)
        slope = self.gelu(wide, name)
        x += self.linear(wide, f"{name}.mlp.2")
        return first_norm, read, qkv, weights, mixed, second_norm, seen, wide, slope

    def block_backward(self, g: Array, saved: tuple[Any, ...], name: str, batch: int) -> None:
        """Turn g, in place, from the gradient of the block's output into that of its input."""
        first_norm, read, qkv, weights, mixed, second_norm, seen, active, slope = saved
        back = self.linear_backward(g, active, f"{name}.mlp.2")
        back *= slope
        back = self.linear_backward(back, seen, f"{name}.mlp.0")
        g += self.layer_norm_backward(back, second_norm, f"{name}.second_norm")
        back = self.linear_backward(g, mixed, f"{name}.attention.project")
        back = self.attend_backward(back, mixed, weights, qkv, batch)
        back = self.linear_backward(back, read, f"{name}.attention.qkv")
        g += self.layer_norm_backward(back, first_norm, f"{name}.first_norm")

    def buffer(self, name: str, *shape: int) -> Array:
        return self.buffers(name, shape, self.dtype)

    def linear(self, x: Array, name: str) -> Array:
        weight = self.parameters[f"{name}.weight"]
        out = np.matmul(x, weight.T, out=self.buffer(name, len(x), len(weight)))
        out += self.parameters[f"{name}.bias"]
        return out

    def linear_backward(self, g: Array, x: Array, name: str) -> Array:
        """The gradient of the input, valid until the next one of its width."""
        weight = self.parameters[f"{name}.weight"]
        to_weight = self.buffer(f"{name} gradient", *weight.shape)
        self.found[f"{name}.weight"] = np.matmul(g.T, x, out=to_weight)
        self.found[f"{name}.bias"] = sum_columns(g)
        return np.matmul(g, weight, out=self.buffer(f"back {weight.shape[1]}", *x.shape))

    def layer_norm(self, x: Array, name: str) -> tuple[Array, Saved]:
        width = x.shape[1]
        scaled = np.subtract(x, sum_rows(x) / width, out=self.buffer(f"{name} scaled", *x.shape))
        inverse = 1 / np.sqrt(np.vecdot(scaled, scaled)[:, None] / width + 1e-5)  # (rows, 1)
        scaled *= inverse
        weight = self.parameters[f"{name}.weight"]
        out = np.multiply(scaled, weight, out=self.buffer(name, *x.shape))
        out += self.parameters[f"{name}.bias"]
        return out, (scaled, inverse)

    def layer_norm_backward(self, g: Array, saved: Saved, name: str) -> Array:
        """The gradient of the input, valid until the next one; g is overwritten."""
        scaled, inverse = saved
        width = g.shape[1]
        out = np.multiply(g, scaled, out=self.buffer("back norm", *g.shape))
        self.found[f"{name}.weight"] = sum_columns(out)
        self.found[f"{name}.bias"] = sum_columns(g)
        g *= self.parameters[f"{name}.weight"]
        np.multiply(scaled, np.vecdot(g, scaled)[:, None] / width, out=out)
        np.subtract(g, out, out=out)
        out -= sum_rows(g) / width
        out *= inverse
        return out

    def attend(self, qkv: Array, batch: int, name: str) -> tuple[Array, Array]:
        """Causal attention: its weights (batch, heads, time, time) and its result."""
        q, k, v = heads(qkv, batch, 3)  # each (batch, heads, time, width / heads)
        time, each = q.shape[2:]
        scores = self.buffer(f"{name} scores", batch, HEADS, time, time)
        np.matmul(q * (1 / math.sqrt(each)), k.mT, out=scores)  # (batch, heads, queries, keys)
        scores += future(time, scores.dtype)
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= sum_rows(scores)
        mixed = self.buffer(f"{name} mixed", len(qkv), HEADS * each)
        np.matmul(scores, v, out=heads(mixed, batch, 1)[0])
        return scores, mixed

    def attend_backward(
        self, g: Array, mixed: Array, weights: Array, qkv: Array, batch: int
    ) -> Array:
        q, k, v = heads(qkv, batch, 3)
        out = self.buffer("back attention", *qkv.shape)
        to_q, to_k, to_v = heads(out, batch, 3)
        g_heads, mixed_heads = heads(g, batch, 1)[0], heads(mixed, batch, 1)[0]
        np.matmul(weights.mT, g_heads, out=to_v)
        back = self.buffer("back scores", *weights.shape)  # (batch, heads, queries, keys)
        np.matmul(g_heads, v.mT, out=back)
        # Σ over keys of weight × gradient, which is also Σ over the width of result × gradient
        back -= np.vecdot(g_heads, mixed_heads)[..., None]
        back *= weights
        back *= 1 / math.sqrt(q.shape[-1])
        np.matmul(back, k, out=to_q)
        np.matmul(back.mT, q, out=to_k)
        return out

    def gelu(self, x: Array, name: str) -> Array:
        """Replace x by x × Φ(x), with the normal distribution Φ; return Φ(x) + x × φ(x)."""
        bell = np.multiply(x, x, out=self.buffer(f"{name} slope", *x.shape))
        bell *= -0.5
        np.exp(bell, out=bell)
        below = self.buffer("below", *x.shape)
        normal_below(x, bell, below, self.buffer("scratch", *x.shape))
        bell *= x
        bell *= 1 / math.sqrt(2 * math.pi)
        bell += below
        x *= below
        return bell


def normal_below(x: Array, bell: Array, out: Array, t: Array) -> None:
    """Φ(x) into `out`, given exp(−x² / 2) and scratch space.

    In float32 by Abramowitz and Stegun's formula 7.1.26, which uses that exponential and whose
    error, 1.5e-7, is that of float32.
    """
    if x.dtype != np.float32:
        out[...] = 0.5 * (1 + erf(x * math.sqrt(0.5)))
        return
    np.abs(x, out=t)
    t *= 0.3275911 * math.sqrt(0.5)
    t += 1
    np.divide(1, t, out=t)
    np.multiply(t, 0.5 * 1.061405429, out=out)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        out += 0.5 * coefficient
        out *= t
    out *= bell  # Φ(−|x|)
    # That is Φ(x) for x < 0, and 1 − Φ(x) for the others: ½ + sign(x) × (½ − it) for both.
    np.subtract(0.5, out, out=out)
    np.copysign(out, x, out=out)
    out += 0.5


@lru_cache
def ones(count: int, dtype: np.dtype[Any]) -> Array:
    return np.ones(count, dtype)


def sum_rows(x: Array) -> Array:
    """The sum of each row, as a column."""
    return (x @ ones(x.shape[-1], x.dtype))[..., None]


def sum_columns(x: Array) -> Array:
    return ones(len(x), x.dtype) @ x


@lru_cache
def future(time: int, dtype: np.dtype[Any]) -> Array:
    """-inf where a query would see a later key, 0 elsewhere."""
    return np.triu(np.full((time, time), -np.inf, dtype), 1)


def heads(x: Array, batch: int, parts: int) -> Array:
    """A view of (batch × time, parts × width) as (parts, batch, heads, time, width / heads)."""
    each = x.reshape(batch, -1, parts, HEADS, x.shape[1] // (parts * HEADS))
    return each.transpose(2, 0, 3, 1, 4)
