"""GradScaler: float16 gradients that would round to zero, saved by scaling the loss."""

from __future__ import annotations

from typing import Any

from gradwalk.engine.modes import current, no_grad
from gradwalk.ops.core.dtypes import float16
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
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0  # good steps since the scale last changed
        self._overflowed: dict[int, bool] = {}  # by the id of an optimizer, since `update`
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """A loss, or several in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        self._refuse_tracing()
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(output) for output in outputs]
            return type(outputs)(scaled)
        raise ValueError(f"scale takes a tensor or a list of tensors, not {outputs!r}")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, in place: before they are clipped."""
        if not self._enabled:
            return
        self._refuse_tracing()
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is called after step(). Fix: call it before.")
        if id(optimizer) in self._overflowed:
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
        with no_grad():
            for g in gradients:
                g.mul_(1 / self._scale)
                overflowed = overflowed | ~g.isfinite().all()
        self._overflowed[id(optimizer)] = bool(overflowed)

    def step(self, optimizer: Optimizer, *args: Any, **keywords: Any) -> Any:
        """`optimizer.step()` with unscaled gradients; nothing if one of them is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **keywords)
        if "closure" in keywords or args:
            raise RuntimeError("a closure cannot be used with a GradScaler that is enabled")
        self._refuse_tracing()
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._overflowed:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._overflowed[id(optimizer)] else optimizer.step()

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the scale after a step: smaller if gradients overflowed, larger after
        `growth_interval` good steps in a row, or to `new_scale`."""
        if not self._enabled:
            return
        self._refuse_tracing()
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._overflowed:
            raise RuntimeError("update() is called before step() or unscale_().")
        elif any(self._overflowed.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._overflowed.clear()
        self._stepped.clear()

    def _refuse_tracing(self) -> None:
        if current().tracer is not None:
            raise RuntimeError(
                "a GradScaler inside a compiled function: whether it skips a step depends on the "
                "gradients of each call.\nFix: compile the forward and backward pass, with the "
                "scale as an argument, and call the scaler outside; or use bfloat16, which needs "
                "no scaling."
            )

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale now; 1 if it is not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By how much the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Change by how much the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change by how much the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Change after how many good steps the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it changes, as PyTorch names them; empty if it is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict`, ours or PyTorch's."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "the state is empty: it was saved from a GradScaler that was not enabled."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
