"""ResNet-50 in gradwalk, PyTorch and JAX: SGD with momentum, bfloat16 products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, SIDE, CLASSES, RATE = 64, 224, 1000, 0.05
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride
GROWTH = 4


def batch() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, 3, SIDE, SIDE), np.float32)
    return x, rng.integers(0, CLASSES, BATCH)


def network(library: Any) -> Any:
    """The network in gradwalk or PyTorch: both spell it alike."""
    nn, F = library.nn, library.nn.functional

    def conv(before: int, after: int, size: int, stride: int = 1) -> Any:
        pad = size // 2
        layer = nn.Conv2d(before, after, size, stride, pad, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(after))

    class Block(nn.Module):
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.first, self.second = conv(before, width, 1), conv(width, width, 3, stride)
            self.third = conv(width, width * GROWTH, 1)
            same = stride == 1 and before == width * GROWTH
            self.skip = nn.Identity() if same else conv(before, width * GROWTH, 1, stride)

        def forward(self, x: Any) -> Any:
            h = F.relu(self.second(F.relu(self.first(x))))
            return F.relu(self.third(h) + self.skip(x))

    library.manual_seed(0)
    layers, width = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for wide, count, stride in STAGES:
        for i in range(count):
            layers.append(Block(width, wide, stride if i == 0 else 1))
            width = wide * GROWTH
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def gradwalk_step() -> Callable[[], Any]:
    import gradwalk as gw

    device = "cuda" if gw.cuda.is_available() else "xla"
    model = network(gw).to(device)
    optimizer = gw.optim.SGD(model.parameters(), RATE, momentum=0.9)
    x, y = (gw.tensor(a, device=device) for a in batch())

    @gw.compile
    def step(x: Any, y: Any) -> Any:
        with gw.autocast(device, dtype=gw.bfloat16):
            loss = gw.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return lambda: step(x, y)


def torch_step() -> Callable[[], Any]:
    import torch

    model = network(torch).to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=0.9, fused=True)
    x, y = (torch.tensor(a, device="cuda") for a in batch())
    x = x.to(memory_format=torch.channels_last)

    @torch.compile
    def loss_of(x: Any, y: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return torch.nn.functional.cross_entropy(model(x), y)

    def step() -> Any:
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def jax_step() -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    rng = np.random.default_rng(1)
    half = jnp.bfloat16

    def conv(before: int, after: int, size: int) -> Any:
        spread = (2 / (before * size * size)) ** 0.5
        w = rng.standard_normal((size, size, before, after), np.float32) * spread
        parameters = {"w": jnp.asarray(w), "scale": jnp.ones(after), "shift": jnp.zeros(after)}
        return parameters, (jnp.zeros(after), jnp.ones(after))

    def convolved(p: Any, seen: Any, x: Any, stride: int = 1) -> Any:
        """A convolution, batch norm, and its running statistics."""
        pad = p["w"].shape[0] // 2
        h = lax.conv_general_dilated(
            x, p["w"].astype(half), (stride, stride), [(pad, pad)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        wide = h.astype(jnp.float32)
        mean = wide.mean((0, 1, 2))
        variance = (wide * wide).mean((0, 1, 2)) - mean * mean
        out = (wide - mean) * (lax.rsqrt(variance + 1e-5) * p["scale"]) + p["shift"]
        now = tuple(0.9 * a + 0.1 * b for a, b in zip(seen, (mean, variance), strict=True))
        return out.astype(half), now

    blocks, strides, width = [], [], 64
    for wide, count, stride in STAGES:
        for i in range(count):
            parts = [conv(width, wide, 1), conv(wide, wide, 3), conv(wide, wide * GROWTH, 1)]
            own = stride if i == 0 else 1
            if own != 1 or width != wide * GROWTH:
                parts.append(conv(width, wide * GROWTH, 1))
            blocks.append(parts)
            strides.append(own)
            width = wide * GROWTH
    stem = conv(3, 64, 7)
    weight = jnp.asarray(rng.standard_normal((width, CLASSES), np.float32) * 0.01)
    parameters = {
        "stem": stem[0],
        "blocks": [[p for p, _ in b] for b in blocks],
        "last": (weight, jnp.zeros(CLASSES)),
    }
    running = {"stem": stem[1], "blocks": [[s for _, s in b] for b in blocks]}

    def loss_of(p: Any, seen: Any, x: Any, y: Any) -> Any:
        h, stem = convolved(p["stem"], seen["stem"], x.astype(half), 2)
        h = jax.nn.relu(h)
        start = np.asarray(-np.inf, half)
        pad = ((0, 0), (1, 1), (1, 1), (0, 0))
        h = lax.reduce_window(h, start, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pad)
        now = []
        for parts, before, stride in zip(p["blocks"], seen["blocks"], strides, strict=True):
            a, one = convolved(parts[0], before[0], h)
            b, two = convolved(parts[1], before[1], jax.nn.relu(a), stride)
            c, three = convolved(parts[2], before[2], jax.nn.relu(b))
            four = []
            if len(parts) == 4:
                h, last = convolved(parts[3], before[3], h, stride)
                four = [last]
            h = jax.nn.relu(c + h)
            now.append([one, two, three, *four])
        h = h.astype(jnp.float32).mean((1, 2))
        logits = (h.astype(half) @ p["last"][0].astype(half)).astype(jnp.float32) + p["last"][1]
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1)
        return -picked.mean(), {"stem": stem, "blocks": now}

    def step(state: Any, x: Any, y: Any) -> Any:
        p, momentum, seen = state
        (loss, seen), g = jax.value_and_grad(loss_of, has_aux=True)(p, seen, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, g)
        return (jax.tree.map(lambda p, m: p - RATE * m, p, momentum), momentum, seen), loss

    run = jax.jit(step, donate_argnums=0)
    kept = [(parameters, jax.tree.map(jnp.zeros_like, parameters), running)]
    x, y = batch()
    images, classes = jnp.asarray(x.transpose(0, 2, 3, 1)), jnp.asarray(y.astype(np.int32))

    def call() -> Any:
        kept[0], loss = run(kept[0], images, classes)
        return loss

    return call
