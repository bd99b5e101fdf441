"""GPT-2 and a small ResNet ported by hand, in either engine, each difference behind a name.

`plan` names what is planted; "" is a faithful port. `HERE` marks the line where B begins to differ.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class PortedGPT2:
    """GPT-2 from its state dict, with an engine's functions: other names, other layouts.

    `engine` is `torch` or `gradwalk`, `nn` its functional namespace.
    """

    def __init__(
        self, engine: Any, functional: Any, weights: dict[str, Any], plan: str, rope: bool = False
    ) -> None:
        self.engine, self.functional, self.plan, self.rope = engine, functional, plan, rope
        self.layers = 1 + max(int(n.split(".")[2]) for n in weights if ".h." in n)
        self.heads = 2
        self.weights: dict[str, Any] = {}
        for name, array in weights.items():
            if not name.endswith((".attn.bias", "masked_bias", "lm_head.weight")):
                self._take(name.removeprefix("transformer."), array)
        if plan == "tied weights":
            self._take("head", weights["lm_head.weight"])

    def _take(self, name: str, array: Any) -> None:
        if name.endswith("c_attn.weight"):  # kept as (out, in), as Linear does
            array = array.T
        if name == "h.0.attn.c_proj.weight" and self.plan == "transposed weight":
            array = array.T
        tensor = self.engine.tensor(np.ascontiguousarray(array))
        tensor.requires_grad = True
        self.weights[name] = tensor

    def __call__(self, words: Any) -> Any:
        """The loss of predicting each word from those before it."""
        weights, engine = self.weights, self.engine
        time = words.shape[1]
        x = weights["wte.weight"][words] + weights["wpe.weight"][engine.arange(time)]
        order = range(self.layers)
        for layer in reversed(order) if self.plan == "layer order" else order:
            x = self._block(x, f"h.{layer}.")
        x = self._norm(x, "ln_f")
        head = weights["head"] if self.plan == "tied weights" else weights["wte.weight"]
        logits = x @ head.mT  # HERE tied weights
        rows = logits[:, :-1].reshape(-1, logits.shape[-1])
        reduction = "sum" if self.plan == "another reduction" else "mean"
        return self.functional.cross_entropy(rows, words[:, 1:].reshape(-1), reduction=reduction)

    def _block(self, x: Any, at: str) -> Any:
        x = x + self._attention(self._norm(x, at + "ln_1"), at + "attn.")
        h = self._norm(x, at + "ln_2")
        h = h @ self.weights[at + "mlp.c_fc.weight"] + self.weights[at + "mlp.c_fc.bias"]
        erf = self.plan == "gelu" and at == "h.1."
        h = self.functional.gelu(h, approximate="none" if erf else "tanh")
        h = h @ self.weights[at + "mlp.c_proj.weight"] + self.weights[at + "mlp.c_proj.bias"]
        if self.plan == "dropout left on":
            h = self.functional.dropout(h, 0.1, training=True)
        return x + h

    def _norm(self, x: Any, at: str) -> Any:
        eps = 1e-6 if self.plan == "another epsilon" and at == "h.1.ln_2" else 1e-5
        mean = x.mean(-1, keepdim=True)
        spread = ((x - mean) * (x - mean)).mean(-1, keepdim=True)
        normal = (x - mean) / (spread + eps) ** 0.5
        return normal * self.weights[at + ".weight"] + self.weights[at + ".bias"]

    def _attention(self, x: Any, at: str) -> Any:
        engine, weights = self.engine, self.weights
        batch, time, width = x.shape
        if self.plan == "dtype" and at == "h.1.attn.":
            x = x.to(engine.float16).to(engine.float32)
        both = x @ weights[at + "c_attn.weight"].mT + weights[at + "c_attn.bias"]
        q, k, v = (both[..., i * width : (i + 1) * width] for i in range(3))
        shape = (batch, time, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).permute(0, 2, 1, 3) for part in (q, k, v))
        if self.rope:
            q, k = self._turned(q), self._turned(k)
        if self.plan == "rope twice" and at == "h.1.attn.":
            k = self._turned(k)  # HERE rope twice
        size = width if self.plan == "attention scale" else width // self.heads
        scores = (q / math.sqrt(size)) @ k.mT
        future = engine.tensor(np.triu(np.ones((time, time), bool), 1))
        weights_of = engine.where(future, engine.tensor(-math.inf), scores).softmax(-1)
        out = (weights_of @ v).permute(0, 2, 1, 3).reshape(batch, time, width)
        return out @ weights[at + "c_proj.weight"] + weights[at + "c_proj.bias"]

    def _turned(self, x: Any) -> Any:
        """Rotary positions: pairs of elements turned by the angle of their time."""
        time, half = x.shape[-2], x.shape[-1] // 2
        rates = 100.0 ** (-np.arange(half) / half)
        angles = np.outer(np.arange(time), rates).astype(np.float32)
        cos, sin = self.engine.tensor(np.cos(angles)), self.engine.tensor(np.sin(angles))
        one, other = x[..., :half], x[..., half:]
        return self.engine.cat([one * cos - other * sin, one * sin + other * cos], -1)


class PortedResNet:
    """A small residual network from its state dict, in functions of either engine."""

    def __init__(self, engine: Any, functional: Any, weights: dict[str, Any], plan: str) -> None:
        self.engine, self.functional, self.plan = engine, functional, plan
        self.weights: dict[str, Any] = {}
        for name, array in weights.items():
            if plan == "transposed weight" and name == "blocks.1.conv1.weight":
                array = np.ascontiguousarray(array.swapaxes(-1, -2))
            tensor = engine.tensor(array)
            if array.dtype.kind == "f" and "running" not in name:
                tensor.requires_grad = True
            self.weights[name] = tensor

    def __call__(self, images: Any, labels: Any) -> Any:
        """The cross entropy of the classes."""
        x = self._conv(images, "stem", "norm").relu()
        for block in (1, 0) if self.plan == "layer order" else (0, 1):
            h = self._conv(x, f"blocks.{block}.conv1", f"blocks.{block}.norm1").relu()
            h = self._conv(h, f"blocks.{block}.conv2", f"blocks.{block}.norm2")
            if self.plan == "dropout left on" and block == 1:
                h = self.functional.dropout(h, 0.2)
            if self.plan == "dtype" and block == 1:
                h = h.to(self.engine.float16).to(self.engine.float32)
            x = h.relu() + x if self.plan == "relu before the sum" else (h + x).relu()
        x = x.amax((2, 3)) if self.plan == "another pooling" else x.mean((2, 3))
        logits = x @ self.weights["head.weight"].mT + self.weights["head.bias"]
        reduction = "sum" if self.plan == "another reduction" else "mean"
        return self.functional.cross_entropy(logits, labels, reduction=reduction)

    def _conv(self, x: Any, conv: str, norm: str) -> Any:
        weights = self.weights
        x = self.functional.conv2d(x, weights[f"{conv}.weight"], padding=1)
        eps = 1e-3 if self.plan == "another epsilon" and norm == "blocks.1.norm2" else 1e-5
        mean, spread = weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"]
        scale = weights[f"{norm}.weight"] / (spread + eps).sqrt()
        shift = weights[f"{norm}.bias"] - mean * scale
        return x * scale.reshape(-1, 1, 1) + shift.reshape(-1, 1, 1)
