"""A GPT in gradwalk, PyTorch and JAX: the same sizes, initial weights alike, AdamW."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.devices.adam import adam_step

RATE = 1e-4


@dataclass(frozen=True)
class Size:
    """How large the network and its batch are."""

    layers: int
    heads: int
    width: int
    time: int
    batch: int
    words: int


GPT2 = Size(12, 12, 768, 1024, 16, 50304)
CHAR = Size(6, 6, 384, 256, 64, 65)


def batch(size: Size) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.integers(0, size.words, (size.batch, size.time))
    return x, rng.integers(0, size.words, size.batch * size.time)


def network(library: Any, size: Size) -> Any:
    """The network in gradwalk or PyTorch: both spell it alike."""
    nn, F = library.nn, library.nn.functional
    width, heads = size.width, size.heads

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            parts = self.qkv(self.before(x)).split(width, 2)
            rows = x.shape[:2]
            q, k, v = (p.view(*rows, heads, width // heads).transpose(1, 2) for p in parts)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(*rows, width))
            return x + self.down(F.gelu(self.up(self.after(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(size.words, width)
            self.places = nn.Embedding(size.time, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(size.layers)))
            self.last = nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            h = self.blocks(self.words(x) + self.places.weight)
            return F.linear(self.last(h), self.words.weight).flatten(0, 1)

    library.manual_seed(0)
    model = GPT()
    with library.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.normal_(0, 0.02)
    return model


def gradwalk_step(size: Size, half: bool) -> Callable[[], Any]:
    import gradwalk as gw

    device = "cuda" if gw.cuda.is_available() else "xla"
    gw.set_float32_matmul_precision("high")
    model = network(gw, size).to(device)
    optimizer = gw.optim.AdamW(model.parameters(), RATE)
    x, y = (gw.tensor(a, device=device) for a in batch(size))

    @gw.compile
    def step(x: Any, y: Any) -> Any:
        with gw.autocast(device, dtype=gw.bfloat16, enabled=half):
            loss = gw.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return lambda: step(x, y)


def torch_step(size: Size, half: bool, compiled: bool = True) -> Callable[[], Any]:
    import torch

    torch.set_float32_matmul_precision("high")
    model = network(torch, size).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), RATE, fused=True)
    x, y = (torch.tensor(a, device="cuda") for a in batch(size))

    def loss_of(x: Any, y: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half):
            return torch.nn.functional.cross_entropy(model(x), y)

    run = torch.compile(loss_of) if compiled else loss_of

    def step() -> Any:
        loss = run(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def jax_step(size: Size, half: bool) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp

    width, heads = size.width, size.heads
    kind = jnp.bfloat16 if half else jnp.float32
    precision = None if half else jax.lax.Precision.HIGH

    def product(x: Any, w: Any, b: Any) -> Any:
        return jnp.matmul(x.astype(kind), w.astype(kind), precision=precision) + b.astype(kind)

    def norm(x: Any, w: Any, b: Any) -> Any:
        x = x.astype(jnp.float32)
        mean = x.mean(-1, keepdims=True)
        variance = (x * x).mean(-1, keepdims=True) - mean * mean
        return ((x - mean) * jax.lax.rsqrt(variance + 1e-5) * w + b).astype(kind)

    @jax.custom_vjp
    def cross_entropy(logits: Any, y: Any) -> Any:
        return forward(logits, y)[0]

    def forward(logits: Any, y: Any) -> Any:
        wide = logits.astype(jnp.float32)
        log_sum = jax.nn.logsumexp(wide, -1)
        picked = jnp.take_along_axis(wide, y[:, None], 1)[:, 0]
        return (log_sum - picked).mean(), (logits, log_sum, y)

    def backward(kept: Any, g: Any) -> Any:
        logits, log_sum, y = kept
        p = jnp.exp(logits.astype(jnp.float32) - log_sum[:, None])
        hit = jax.lax.broadcasted_iota(y.dtype, p.shape, 1) == y[:, None]
        return ((p - hit) * (g / len(y))).astype(logits.dtype), None

    cross_entropy.defvjp(forward, backward)

    def attend(q: Any, k: Any, v: Any) -> Any:
        if half and jax.default_backend() == "gpu":
            return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    def loss_of(p: Any, x: Any, y: Any) -> Any:
        h = (p["words"][x] + p["places"]).astype(kind)
        for b in p["blocks"]:
            qkv = product(norm(h, *b["before"]), *b["qkv"])
            q, k, v = (t.reshape(*x.shape, heads, -1) for t in jnp.split(qkv, 3, -1))
            h = h + product(attend(q, k, v).reshape(h.shape), *b["out"])
            up = jax.nn.gelu(product(norm(h, *b["after"]), *b["up"]), approximate=True)
            h = h + product(up, *b["down"])
        h = norm(h, *p["last"]).reshape(-1, width)
        logits = jnp.matmul(h, p["words"].T.astype(kind), precision=precision)
        return cross_entropy(logits, y)

    rng = np.random.default_rng(1)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape, np.float32) * 0.02)

    def scale() -> Any:
        return jnp.ones(width), jnp.zeros(width)

    def linear(n: int, m: int) -> Any:
        return normal(n, m), jnp.zeros(m)

    parameters = {
        "words": normal(size.words, width),
        "places": normal(size.time, width),
        "last": scale(),
        "blocks": [
            {
                "before": scale(), "after": scale(), "qkv": linear(width, 3 * width),
                "out": linear(width, width), "up": linear(width, 4 * width),
                "down": linear(4 * width, width),
            }
            for _ in range(size.layers)
        ],
    }  # fmt: skip

    x, y = (jnp.asarray(a.astype(np.int32)) for a in batch(size))
    return adam_step(loss_of, parameters, (x, y), RATE, 0.01)
