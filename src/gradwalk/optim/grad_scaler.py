"""GradScaler: float16 gradients that would round to zero, saved by scaling the loss."""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from typing import Any

from gradwalk.engine.modes import current, no_grad
from gradwalk.graph.abstract import AbstractNumber
from gradwalk.ops.core.dtypes import float16
from gradwalk.ops.elementwise.choice import where
from gradwalk.optim.optimizer import Optimizer
from gradwalk.tensors.tensor import Tensor


class GradScaler:
    """Scales a loss so that small gradients do not round to zero in float16, and skips steps whose
    gradients overflowed. The scale grows after many good steps and shrinks after a bad one.

    bfloat16 has the range of float32 and needs no scaling.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> optimizer, scaler = gw.optim.SGD([w], lr=0.5), gw.amp.GradScaler("cpu")
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and growth_factor <= 1:
            raise ValueError(f"growth_factor must be above 1, not {growth_factor}")
        if enabled and backoff_factor >= 1:
            raise ValueError(f"backoff_factor must be below 1, not {backoff_factor}")
        self._device = device
        self._enabled = bool(enabled)
        self._kept = ScalerState(
            scale=float(init_scale),
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            growth_tracker=0,  # good steps since the scale last changed
        )

    @property
    def _numbers(self) -> dict[str, Any]:
        """The scale and how it changes; inside a compiled function they are read at every call."""
        self._kept.notice_tracing()
        return self._kept.param_groups[0]

    def scale(self, outputs: Any) -> Any:
        """A loss, or several in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._numbers["scale"]
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(output) for output in outputs]
            return type(outputs)(scaled)
        raise ValueError(f"scale takes a tensor or a list of tensors, not {outputs!r}")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, in place: before they are clipped."""
        if not self._enabled:
            return
        kept, numbers = self._kept, self._numbers
        if id(optimizer) in kept.stepped:
            raise RuntimeError("unscale_() is called after step(). Fix: call it before.")
        if id(optimizer) in kept.overflowed:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        gradients = [
            p.grad for group in optimizer.param_groups for p in group["params"]
            if p.grad is not None
        ]  # fmt: skip
        if any(g.dtype == float16 for g in gradients):
            raise ValueError(
                "the parameters are float16, and so are their gradients: dividing them by the "
                "scale would round them to zero.\nFix: keep the parameters in float32 and run the "
                "model inside autocast."
            )
        overflowed: Any = False
        factor = 1 / numbers["scale"]
        with no_grad():
            for g in gradients:
                g.mul_(factor)
                overflowed = overflowed | ~g.isfinite().all()
        traced = current().tracer is not None and gradients
        kept.overflowed[id(optimizer)] = overflowed if traced else bool(overflowed)

    def step(self, optimizer: Optimizer, *args: Any, **keywords: Any) -> Any:
        """`optimizer.step()` with unscaled gradients; nothing if one of them is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **keywords)
        if "closure" in keywords or args:
            raise RuntimeError("a closure cannot be used with a GradScaler that is enabled")
        kept = self._kept
        kept.notice_tracing()
        if id(optimizer) in kept.stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in kept.overflowed:
            self.unscale_(optimizer)
        kept.stepped.add(id(optimizer))
        overflowed = kept.overflowed[id(optimizer)]
        if isinstance(overflowed, Tensor):
            return _step_unless(overflowed, optimizer)
        return None if overflowed else optimizer.step()

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the scale after a step: smaller if gradients overflowed, larger after
        `growth_interval` good steps in a row, or to `new_scale`."""
        if not self._enabled:
            return
        kept, numbers = self._kept, self._numbers
        if new_scale is not None:
            numbers["scale"] = float(new_scale)
        elif not kept.overflowed:
            raise RuntimeError(
                "update() is called before step() or unscale_(). After a step inside a compiled "
                "function it belongs there, too."
            )
        else:
            overflowed = functools.reduce(operator.or_, kept.overflowed.values())
            scale, good = numbers["scale"], numbers["growth_tracker"] + 1
            grows = good == numbers["growth_interval"]
            grown = _either(grows, scale * numbers["growth_factor"], scale)
            numbers["scale"] = _either(overflowed, scale * numbers["backoff_factor"], grown)
            numbers["growth_tracker"] = _either(overflowed, 0, _either(grows, 0, good))
        kept.overflowed.clear()
        kept.stepped.clear()

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale now; 1 if it is not enabled."""
        return self._numbers["scale"] if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By how much the scale grows."""
        return self._numbers["growth_factor"]

    def set_growth_factor(self, new_factor: float) -> None:
        """Change by how much the scale grows."""
        self._numbers["growth_factor"] = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the scale shrinks."""
        return self._numbers["backoff_factor"]

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change by how much the scale shrinks."""
        self._numbers["backoff_factor"] = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._numbers["growth_interval"]

    def set_growth_interval(self, new_interval: int) -> None:
        """Change after how many good steps the scale grows."""
        self._numbers["growth_interval"] = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it changes, as PyTorch names them; empty if it is not enabled."""
        if not self._enabled:
            return {}
        names = ("scale", "growth_factor", "backoff_factor", "growth_interval")
        numbers = self._numbers
        state = {name: numbers[name] for name in names}
        return {**state, "_growth_tracker": numbers["growth_tracker"]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict`, ours or PyTorch's."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "the state is empty: it was saved from a GradScaler that was not enabled."
            )
        numbers = self._numbers
        for name in ("growth_factor", "backoff_factor", "growth_interval"):
            numbers[name] = state_dict[name]
        numbers["scale"] = float(state_dict["scale"])
        numbers["growth_tracker"] = state_dict["_growth_tracker"]


class ScalerState(Optimizer):
    """What a scaler keeps. It keeps numbers as an optimizer does its learning rate: a compiled
    function reads them at every call, and changes them."""

    def __init__(self, **numbers: float) -> None:
        self.param_groups = [{"params": [], **numbers}]
        self.state = defaultdict(dict)
        self.overflowed: dict[int, Any] = {}  # by the id of an optimizer, since `update`
        self.stepped: set[int] = set()
        self.tracer: Any = None

    def notice_tracing(self) -> None:
        """In a compiled function: capture the numbers, and forget its steps after the trace."""
        tracer = current().tracer
        if tracer is None or tracer is self.tracer:
            return
        if self.overflowed:
            raise RuntimeError(
                "a GradScaler inside a compiled function, after step() or unscale_() outside it.\n"
                "Fix: call update() before, or step() and unscale_() inside."
            )
        self.tracer = tracer
        tracer.steps(self)
        tracer.undo.append(self.forget)

    def forget(self) -> None:
        """Forget the steps since `update`."""
        self.tracer = None
        self.overflowed.clear()
        self.stepped.clear()


def _either(which: Any, one: Any, other: Any) -> Any:
    """One number or another; inside a compiled function the program chooses."""
    if isinstance(which, bool):
        return one if which else other
    return current().tracer.choose(which, one, other)


def _step_unless(overflowed: Tensor, optimizer: Optimizer) -> Any:
    """A step inside a compiled function: it is made, and if gradients overflowed, everything is
    what it was before. State that begins with a first gradient begins with zero then."""
    tracer: Any = current().tracer
    tracer.steps(optimizer)  # now all parameters that move have their state
    moved = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    before: list[tuple[Any, dict[str, Any]]] = [
        (p, {k: _copied(v) for k, v in optimizer.state.get(p, {}).items()}) for p in moved
    ]
    with no_grad():
        parameters = [p.detach().clone() for p in moved]
        result = optimizer.step()
        for (p, entries), parameter in zip(before, parameters):
            p.copy_(where(overflowed, parameter, p))
            state = optimizer.state.get(p, {})
            for name, now in state.items():
                old = entries.get(name)
                if isinstance(now, Tensor):
                    now.copy_(where(overflowed, 0 if old is None else old, now))
                elif isinstance(now, AbstractNumber):
                    state[name] = _either(overflowed, old, now)
    return result


def _copied(entry: Any) -> Any:
    return entry.detach().clone() if isinstance(entry, Tensor) else entry
