"""Muon: momentum whose matrices are made nearly orthogonal before each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import InitVar as Option
from typing import Any

import numpy as np

from gradwalk.nn.constructors import declared
from gradwalk.optim.optimizer import Group, Optimizer, new_state, refuse_complex
from gradwalk.tensors.tensor import Tensor

_ADJUSTMENTS: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, columns: max(1, rows / columns) ** 0.5,
    "match_rms_adamw": lambda rows, columns: 0.2 * max(rows, columns) ** 0.5,
}


@declared
class Muon(Optimizer):
    """Steps along U Vᵀ, where U S Vᵀ is the momentum of a matrix: all directions alike.

    For the matrices of hidden layers; other parameters need another optimizer. PyTorch
    orthogonalizes in bfloat16, gradwalk in the dtype of the parameter.

    >>> import gradwalk as gw
    >>> w = gw.eye(2).requires_grad_()
    >>> (w * w).sum().backward()
    >>> gw.optim.Muon([w], lr=0.1).step()
    >>> bool(w.trace() < 2)
    True
    """

    params: Option[Iterable[Any]]
    lr: Option[float] = 1e-3
    weight_decay: Option[float] = 0.1
    momentum: Option[float] = 0.95
    nesterov: Option[bool] = True
    ns_coefficients: Option[tuple[float, float, float]] = (3.4445, -4.775, 2.0315)
    eps: Option[float] = 1e-7
    ns_steps: Option[int] = 5
    adjust_lr_fn: Option[str | None] = None

    def _construct(self, **options: Any) -> None:
        if options["adjust_lr_fn"] not in (None, *_ADJUSTMENTS):
            raise ValueError(
                f"adjust_lr_fn is {' or '.join(_ADJUSTMENTS)}, not {options['adjust_lr_fn']!r}"
            )
        super()._construct(**options)
        refuse_complex(self)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon moves matrices, not a parameter of shape {tuple(p.shape)}. Fix: "
                        "give the others to another optimizer, such as AdamW."
                    )

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """Zeros."""
        return {"momentum_buffer": new_state(parameter)}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step of each parameter, in place."""
        lr, momentum = group["lr"], group["momentum"]
        adjust = _ADJUSTMENTS[group["adjust_lr_fn"] or "original"]
        for p in parameters:
            parameter: Any = p._array
            gradient: Any = p._grad._array  # type: ignore[union-attr]
            mean: Any = self.state_of(p, group)["momentum_buffer"]._array
            mean *= momentum
            mean += gradient * (1 - momentum)
            update = gradient * (1 - momentum) + mean * momentum if group["nesterov"] else mean
            parameter *= 1 - lr * group["weight_decay"]
            parameter -= _orthogonal(update, group) * (lr * adjust(*parameter.shape))


def _orthogonal(matrix: Any, group: Group) -> Any:
    """Nearly U Vᵀ of a matrix U S Vᵀ, by steps of a polynomial that pulls S towards 1."""
    a, b, c = group["ns_coefficients"]
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / np.maximum(np.sqrt((x * x).sum()), group["eps"])
    for _ in range(group["ns_steps"]):
        gram = x @ x.T
        x = x * a + (gram * b + gram @ gram * c) @ x
    return x.T if tall else x
