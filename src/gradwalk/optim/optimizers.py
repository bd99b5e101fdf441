"""Optimizers: parameters, their gradients, one step at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.engine.modes import quietly
from gradwalk.graph.source import caller
from gradwalk.graph.versions import touch
from gradwalk.tensor import Tensor


class Optimizer:
    """What all optimizers share: parameter groups with their options, and per-parameter state."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        listed = list(params)
        if not listed:
            raise ValueError("the optimizer got no parameters")
        groups = listed if isinstance(listed[0], dict) else [{"params": listed}]
        self.param_groups = [
            {**defaults, **group, "params": list(group["params"])} for group in groups
        ]
        self.state: dict[Tensor, dict[str, Any]] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                if not isinstance(parameter, Tensor) or not parameter.is_leaf:
                    raise TypeError(
                        f"an optimizer takes leaf tensors, not {type(parameter).__name__}"
                    )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter._grad = None
                elif parameter.grad is not None:
                    parameter.grad.zero_()

    def step(self) -> None:
        """Move every parameter that has a gradient."""
        here = caller()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter._grad is not None:
                    state = self.state.setdefault(parameter, {})
                    quietly(self.update, parameter._array, parameter._grad._array, state, group)
                    touch(parameter._array, *here)

    def update(
        self,
        parameter: np.ndarray[Any, Any],
        gradient: np.ndarray[Any, Any],
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        """Change one parameter in place; subclasses write it."""
        raise NotImplementedError


class SGD(Optimizer):
    """Gradient descent: p −= lr × gradient.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.SGD([w], lr=0.25).step()
    >>> w
    tensor([0.5000], requires_grad=True)
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    def update(
        self,
        parameter: np.ndarray[Any, Any],
        gradient: np.ndarray[Any, Any],
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        """p −= lr × gradient."""
        parameter -= group["lr"] * gradient


class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    m and v are running means of the gradient and its square; each is divided by 1 − βᵗ to undo
    its start at zero.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def update(
        self,
        parameter: np.ndarray[Any, Any],
        gradient: np.ndarray[Any, Any],
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        """One AdamW step for one parameter, in place and without temporaries to speak of."""
        if not state:
            state["step"] = 0
            state["exp_avg"] = np.zeros_like(parameter)
            state["exp_avg_sq"] = np.zeros_like(parameter)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        lr = group["lr"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        parameter *= 1 - lr * group["weight_decay"]
        m *= beta1
        scratch = gradient * (1 - beta1)
        m += scratch
        v *= beta2
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1 - beta2
        v += scratch
        np.sqrt(v, out=scratch)
        scratch *= 1 / math.sqrt(1 - beta2 ** state["step"])
        scratch += group["eps"]
        np.divide(m, scratch, out=scratch)
        scratch *= lr / (1 - beta1 ** state["step"])
        parameter -= scratch
