"""health: what is wrong with a network's gradients, which layer and line, why, and what to try."""

from __future__ import annotations

from typing import Any

from gradwalk.inspect.health.checks import GRADIENTS_READ
from gradwalk.inspect.health.examination import HealthReport, examine
from gradwalk.inspect.health.findings import Limits
from gradwalk.inspect.health.fixes import try_fix
from gradwalk.inspect.trace.recorder import light_trace


class _Health:
    """`health(model, loss)` examines one step; `health.try_fix(...)` tries changes on it."""

    try_fix = staticmethod(try_fix)

    def __call__(
        self,
        model: Any = None,
        trace: Any = None,
        optimizer: Any = None,
        *,
        lr: float | None = None,
        limits: Limits | None = None,
    ) -> HealthReport:
        """Examine one forward and backward pass of a model.

        `trace` is a recording, a loss whose graph is still there, or left out: the current
        recording. With the `optimizer` (or the `lr` of plain gradient descent) it also says how
        far a step would move each weight. Looks for vanishing and exploding gradients, dead and
        saturated units, a poor start, steps of the wrong size, and parameters without a gradient.

        >>> import gradwalk as gw
        >>> _ = gw.manual_seed(0)
        >>> layers = [gw.nn.Linear(8, 8) for _ in range(6)]
        >>> h = gw.randn(32, 8)
        >>> for layer in layers:
        ...     h = layer(h).sigmoid()
        >>> report = health(gw.nn.ModuleList(layers), h.square().sum())
        >>> [finding.kind for finding in report.findings]
        ['vanishing']
        >>> print(report.findings[0].chain)
        sigmoid ×0.2421 five times, linear ×0.5692 five times (weight norm 0.5885 per row); ...
        """
        return examine(model, light_trace(trace, GRADIENTS_READ), optimizer, lr=lr, limits=limits)


health = _Health()
health.__doc__ = _Health.__call__.__doc__
