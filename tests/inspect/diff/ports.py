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

    def __init__(self, engine: Any, functional: Any, weights: dict[str, Any], plan: str) -> None:
        self.engine, self.functional, self.plan = engine, functional, plan
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
        size = width if self.plan == "attention scale" else width // self.heads
        scores = (q / math.sqrt(size)) @ k.mT
        future = engine.tensor(np.triu(np.ones((time, time), bool), 1))
        weights_of = engine.where(future, engine.tensor(-math.inf), scores).softmax(-1)
        out = (weights_of @ v).permute(0, 2, 1, 3).reshape(batch, time, width)
        return out @ weights[at + "c_proj.weight"] + weights[at + "c_proj.bias"]
