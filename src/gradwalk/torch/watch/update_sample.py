"""A sample of the weights of an optimizer: how far steps move them, without a copy of the model."""

from __future__ import annotations

import copy
from inspect import unwrap
from typing import Any, NamedTuple

import torch

from gradwalk.torch.watch.layer_numbers import local

MOST = 1024  # elements of a parameter
NORMS = 8  # measurements between two looks at the norms of the weights


class PredictedStep(NamedTuple):
    """A step of an optimizer on a sample of its weights."""

    ratios: list[float]  # update by weight
    sizes: list[float]  # of the update of an element: root mean square
    twin: torch.optim.Optimizer  # after the step


class UpdateSample:
    """Equally spaced elements of every weight of an optimizer.

    Weights are parameters with two axes or more; an optimizer without any is judged by all of its
    parameters. An update is divided by the largest norm that the weight has had: a number that
    passes zero does not make its update large.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.parameters: list[torch.Tensor] = []
        self._count = -1  # parameters of the optimizer when the weights were chosen
        self._lengths: torch.Tensor | None = None  # of the parts of the sample
        self._largest: torch.Tensor | None = None  # norms, squared
        self._before: torch.Tensor | None = None
        self._places: list[int] = []
        self._views: list[torch.Tensor] = []
        self._measured = 0

    @property
    def is_waiting(self) -> bool:
        """Whether the weights before a step were taken, and those after it were not."""
        return self._before is not None

    def take(self) -> None:
        """Take the weights before a step."""
        self._choose()
        self._before = self._now() if self.parameters else None

    def moved(self) -> torch.Tensor | None:
        """How far each weight has moved since `take`, by its norm; without waiting."""
        before, self._before = self._before, None
        if before is None:
            return None
        now = self._now()
        return None if now.shape != before.shape else self._ratios(before, now)

    def predicted(self) -> PredictedStep | None:
        """How far the next step would move each weight: the optimizer's own step on the sample.

        None for an optimizer that does not update each element by itself (LBFGS, Adafactor).
        """
        self._choose()
        if getattr(self.optimizer, "grad_scale", None) is not None:
            return None  # its gradients are scaled
        copies: list[torch.Tensor] = []
        try:
            twin = self._twin(copies)
            if twin is None:
                return None
            before = torch.cat([c.detach().clone() for c in copies])
            with torch.no_grad():
                unwrap(type(twin).step)(twin)  # without the hooks on steps
        except (TypeError, ValueError, RuntimeError, AttributeError, KeyError):
            return None  # not every optimizer can be made from its groups
        after = torch.cat([c.detach() for c in copies])
        ratios = self._ratios(before, after)
        assert self._lengths is not None
        sizes = (self.squares(after - before) / self._lengths).sqrt()
        return PredictedStep(ratios.tolist(), sizes.tolist(), twin)

    def _choose(self) -> None:
        groups = self.optimizer.param_groups
        count = sum(len(group["params"]) for group in groups)
        if count == self._count:
            return
        every = [p for group in groups for p in group["params"] if p.is_floating_point()]
        every = [p for p in every if p.device == every[0].device and p.numel() > 1]
        self.parameters = [p for p in every if p.ndim > 1] or every
        self._count = count
        self._lengths = self._largest = self._before = None

    def _now(self) -> torch.Tensor:
        """The sample, through views that are kept while the weights stay where they are."""
        places = [p.data_ptr() for p in self.parameters]
        if places != self._places:
            # A part of a weight that is not contiguous is a copy.
            self._places = places if all(p.is_contiguous() for p in self.parameters) else []
            self._views = [_part(local(p)) for p in self.parameters]
        return torch.cat(self._views)

    def _ratios(self, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        if self._lengths is None:
            lengths = [_part(local(p)).numel() for p in self.parameters]
            self._lengths = torch.tensor(lengths, device=before.device)
        if self._largest is None or self._measured % NORMS == 0:
            size = self.squares(before)
            self._largest = size if self._largest is None else torch.maximum(self._largest, size)
        self._measured += 1
        return (self.squares(after - before) / self._largest.clamp(min=1e-30)).sqrt()

    def squares(self, flat: torch.Tensor) -> torch.Tensor:
        """The squared norm of each weight in the sample."""
        # unsafe: checking the lengths would wait for the device
        squares = flat.float().square()
        return torch.segment_reduce(squares, "sum", lengths=self._lengths, unsafe=True)

    def _twin(self, copies: list[torch.Tensor]) -> torch.optim.Optimizer | None:
        """The same optimizer with the sample as its parameters, and its state."""
        weights = {id(p) for p in self.parameters}
        groups: list[dict[str, Any]] = []
        states: dict[torch.Tensor, dict[str, Any]] = {}
        by_id: dict[int, torch.Tensor] = {}
        for group in self.optimizer.param_groups:
            members = []
            for p in group["params"]:
                if id(p) not in weights:
                    continue
                by_id[id(p)] = stand_in = torch.nn.Parameter(_part(local(p)).clone())
                if p.grad is not None:
                    stand_in.grad = _part(local(p.grad)).clone()
                state = _state_part(self.optimizer.state.get(p, {}), p)
                if state is None:
                    return None
                states[stand_in] = state
                members.append(stand_in)
            if members:
                groups.append({**group, "params": members})
        twin: torch.optim.Optimizer = type(self.optimizer)(groups)  # type: ignore[call-arg]
        twin.state.update(states)
        copies += [by_id[id(p)] for p in self.parameters]
        return twin


def _part(tensor: torch.Tensor) -> torch.Tensor:
    """Equally spaced elements; an odd distance reaches every column of a matrix."""
    distance = tensor.numel() // MOST
    flat = tensor.reshape(-1)
    return flat if distance < 2 else flat[:: distance | 1]


def _state_part(state: dict[str, Any], parameter: torch.Tensor) -> dict[str, Any] | None:
    """The state of the sample; None if it is not one number per element, or one for all."""
    part: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and value.shape == parameter.shape and value.ndim:
            part[name] = _part(local(value)).clone()
        elif isinstance(value, torch.Tensor) and value.numel() == 1:
            part[name] = value.clone()
        elif value is None or isinstance(value, (bool, int, float)):
            part[name] = copy.copy(value)
        else:
            return None
    return part
