"""assert_healthy fails if the gradients of a model are unhealthy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.inspect.health.examination import HealthReport
from gradwalk.inspect.health.findings import Limits
from gradwalk.inspect.health.health import health
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.testing.one_step import is_foreign, loss_of, recording
from gradwalk.testing.restored import gradients_kept


def assert_healthy(
    model: Any,
    loss_fn: Callable[..., Any],
    batch: Any,
    *,
    optimizer: Any = None,
    limits: Limits | None = None,
    ignore: tuple[str, ...] = (),
) -> HealthReport:
    """Run one forward and backward pass; raise AssertionError with the findings.

    `loss_fn` is a loss as layers have it, called with the model's output and the target, the last
    of the batch: `assert_healthy(model, nn.CrossEntropyLoss(), (x, y))`; or a function whose first
    parameter is called `model`: `loss_fn(model, batch)`. A batch that is a dictionary is given to
    the model by name. With the `optimizer`, the size of a step is looked at too. `ignore` names
    kinds of findings that are meant to be so ("dead", "unused", ...). The `.grad`s of the model
    stay as they were.

    >>> import gradwalk as gw
    >>> from gradwalk.testing import assert_healthy
    >>> _ = gw.manual_seed(0)
    >>> model = gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.Tanh(), gw.nn.Linear(8, 3))
    >>> batch = gw.randn(16, 4), gw.randint(0, 3, (16,))
    >>> assert_healthy(model, gw.nn.CrossEntropyLoss(), batch).healthy
    True
    """
    with gradients_kept(model), recording(is_foreign(model)) as trace:
        loss_of(model, loss_fn, batch).backward()
    nan = find_nan(trace)
    if nan:
        raise AssertionError(f"{type(model).__name__} is not healthy:\n{nan}")
    report = health(model, trace, optimizer, limits=limits)
    sick = [finding for finding in report.findings if finding.kind not in ignore]
    if sick:
        listed = "\n\n".join(f"{number}. {finding}" for number, finding in enumerate(sick, 1))
        raise AssertionError(f"{type(model).__name__} is not healthy:\n{listed}")
    return report
