"""LayerNumbers: norms of gradients, weights, updates and moments by layer, as a flat dictionary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Self

import torch

from gradwalk.torch import private_foreach
from gradwalk.torch.watch.gradient_checks import parameters_of, unrecorded
from gradwalk.torch.watch.watched_things import several

FIRST, SECOND = "exp_avg", "exp_avg_sq"  # Adam's names for its moments
ALL = "all"  # layers together
_WRAPPERS = ("module.", "_orig_mod.", "_forward_module.")  # DDP, torch.compile, Fabric


class LayerNumbers:
    """Measure every `every`-th step of a PyTorch optimizer, layer by layer.

    `last` is a flat dictionary of floats for wandb, TensorBoard or any other logger: for each
    layer that has parameters of its own `grad_norm`, `weight_norm` (before the step),
    `update_norm`, `update_ratio` (update by weight), and for Adam `first_moment` and
    `second_moment` (norm of m, norm of √v); `all/...` has the same for the whole model.
    `history` keeps one dictionary per measured step.

    A measured step copies the weights while the optimizer steps, and waits for the device once.
    Other steps cost nothing. `remove()`, or the end of a `with` block, removes the hooks.

    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with LayerNumbers(model, optimizer, every=2) as numbers:
    ...     for _ in range(4):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(4, 2)).square().mean().backward()
    ...         optimizer.step()
    >>> [row["step"] for row in numbers.history], "Linear/update_ratio" in numbers.last
    ([0.0, 2.0], True)
    """

    def __init__(
        self,
        model: torch.nn.Module | Sequence[torch.nn.Module],
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        every: int = 10,
    ) -> None:
        if every < 1:
            raise ValueError(f"every is a number of steps, at least 1, not {every!r}")
        self.every = every
        self.last: dict[str, float] = {}
        self.history: list[dict[str, float]] = []
        models = several(model, torch.nn.Module)
        self._layers = {key: name for m in models for key, name in layers_of(m).items()}
        self._copies: dict[int, torch.Tensor] = {}
        self._hooks = ExitStack()
        optimizers = several(optimizer, torch.optim.Optimizer)
        self._steps = {id(each): 0 for each in optimizers}
        for each in optimizers:
            self._hooks.enter_context(each.register_step_pre_hook(self._before))
            self._hooks.enter_context(each.register_step_post_hook(self._after))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()

    def remove(self) -> None:
        """Stop measuring. The history stays."""
        self._hooks.close()
        self._copies.clear()

    def _before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._steps[id(optimizer)] % self.every:
            return
        with torch.no_grad(), unrecorded():
            for parameter in parameters_of(optimizer):
                self._copies[id(parameter)] = local(parameter).clone()

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        copies, self._copies = self._copies, {}
        step = self._steps[id(optimizer)]
        self._steps[id(optimizer)] += 1
        if not copies:
            return
        with torch.no_grad(), unrecorded():
            row = self._measured(optimizer, copies)
        if not row:
            return
        if self.history and self.history[-1]["step"] == step:  # another optimizer of this step
            row = self.history.pop() | row
        self.last = _summed(row)
        self.history.append({"step": float(step), **self.last})

    def _measured(
        self, optimizer: torch.optim.Optimizer, copies: dict[int, torch.Tensor]
    ) -> dict[str, float]:
        tensors: list[torch.Tensor] = []
        places: list[tuple[str, str]] = []  # layer and quantity of each tensor

        def measure(layer: str, what: str, tensor: torch.Tensor) -> None:
            tensors.append(tensor)
            places.append((layer, what))

        for parameter in parameters_of(optimizer):
            before = copies.get(id(parameter))
            # A parameter without a gradient is not part of this step.
            if before is None or parameter.grad is None or not before.is_floating_point():
                continue
            layer = self._layers.get(id(parameter), "other")
            measure(layer, "grad_norm", local(parameter.grad))
            measure(layer, "weight_norm", before)
            measure(layer, "update_norm", local(parameter) - before)
            state = optimizer.state.get(parameter, {})
            if isinstance(state.get(FIRST), torch.Tensor):
                measure(layer, "first_moment", local(state[FIRST]))
            if isinstance(state.get(SECOND), torch.Tensor):
                measure(layer, "second_moment", local(state[SECOND]).sqrt())
        if not tensors:
            return {}
        squares: dict[tuple[str, str], float] = {}
        norms = private_foreach.stacked(private_foreach.each_norm(tensors)).tolist()  # the one wait
        for place, norm in zip(places, norms):
            squares[place] = squares.get(place, 0.0) + norm * norm
        return {f"{layer}/{what}": math.sqrt(square) for (layer, what), square in squares.items()}


def _summed(row: dict[str, float]) -> dict[str, float]:
    """The numbers of the layers, the same of the whole model, and updates by weights."""
    numbers: dict[str, float] = {}
    squares: dict[str, float] = {}
    for name, value in row.items():
        layer, _, what = name.rpartition("/")
        if layer not in ("", ALL) and what != "update_ratio":
            numbers[name] = value
            squares[what] = squares.get(what, 0.0) + value * value
    numbers.update({f"{ALL}/{what}": math.sqrt(square) for what, square in squares.items()})
    for name in [name for name in numbers if name.endswith("/update_norm")]:
        weight = numbers[name.replace("/update_norm", "/weight_norm")]
        if weight:
            numbers[name.replace("/update_norm", "/update_ratio")] = numbers[name] / weight
    return numbers


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a sharded tensor that lies here; any other tensor itself."""
    detached = tensor.detach()
    return detached.to_local() if hasattr(detached, "to_local") else detached


def layers_of(model: torch.nn.Module) -> dict[int, str]:
    """The layer of each parameter, by `id`: the name of the module that holds it."""
    layers: dict[int, str] = {}
    for name, module in model.named_modules():
        for wrapper in _WRAPPERS:
            while name.startswith(wrapper) or f"{name}." == wrapper:
                name = name[len(wrapper) :]
        for parameter in module.parameters(recurse=False):
            layers.setdefault(id(parameter), name or type(module).__name__)
    return layers
