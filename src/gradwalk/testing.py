"""For users' tests: `assert_healthy` fails if a model's gradients are unhealthy.

Models of gradwalk and of PyTorch alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradwalk.inspect.health.examination import HealthReport
from gradwalk.inspect.health.findings import Limits
from gradwalk.inspect.health.health import health
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.trace.live import is_tensor, is_torch_tensor
from gradwalk.inspect.trace.recorder import record

__all__ = ["assert_healthy"]

_MODELS = frozenset(("model", "net", "network", "module", "m"))  # what such a parameter is called
_BATCHES = frozenset(("batch", "data"))


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
    >>> _ = gw.manual_seed(0)
    >>> model = gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.Tanh(), gw.nn.Linear(8, 3))
    >>> batch = gw.randn(16, 4), gw.randint(0, 3, (16,))
    >>> assert_healthy(model, gw.nn.CrossEntropyLoss(), batch).healthy
    True
    """
    with _gradients_kept(model), _recording(model) as trace:
        loss = _loss(model, loss_fn, batch)
        _checked(loss, loss_fn).backward()
    nan = find_nan(trace)
    if nan:
        raise AssertionError(f"{type(model).__name__} is not healthy:\n{nan}")
    report = health(model, trace, optimizer, limits=limits)
    sick = [finding for finding in report.findings if finding.kind not in ignore]
    if sick:
        listed = "\n\n".join(f"{number}. {finding}" for number, finding in enumerate(sick, 1))
        raise AssertionError(f"{type(model).__name__} is not healthy:\n{listed}")
    return report


@contextmanager
def _recording(model: Any) -> Iterator[Any]:
    if any(is_torch_tensor(parameter) for parameter in model.parameters()):
        from gradwalk.torch.record.recorder import TorchRecorder
        from gradwalk.torch.watch.watch import aside

        with aside(), TorchRecorder() as trace:  # a watch need not know of this step
            yield trace
    else:
        with record() as trace:
            yield trace


@contextmanager
def _gradients_kept(model: Any) -> Iterator[None]:
    """Restore the `.grad`s afterwards."""
    before = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in before:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient


def _loss(model: Any, loss_fn: Callable[..., Any], batch: Any) -> Any:
    names = _parameters(loss_fn)
    several = batch if isinstance(batch, tuple | list) else (batch,)
    if names and names[0] in _MODELS:
        return loss_fn(model, batch) if len(names) <= 2 else loss_fn(model, *several)
    if len(names) == 1 and names[0] in _BATCHES:
        return loss_fn(batch)
    if isinstance(batch, dict):
        output = model(**batch)
        return loss_fn(output) if len(names) == 1 else loss_fn(output, batch)
    *inputs, target = several if len(several) > 1 else (batch, batch)
    output = model(*inputs)
    return loss_fn(output) if len(names) == 1 else loss_fn(output, target)


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the required positional parameters."""
    try:
        given = inspect.signature(getattr(function, "forward", function)).parameters.values()
    except (TypeError, ValueError):  # built in
        return []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in given if p.kind in places and p.default is p.empty]


def _checked(loss: Any, loss_fn: Callable[..., Any]) -> Any:
    if is_tensor(loss) and len(loss.shape) == 0 and loss.requires_grad:
        return loss
    name = getattr(loss_fn, "__name__", type(loss_fn).__name__)
    kind = f"a tensor of shape {tuple(loss.shape)}" if is_tensor(loss) else type(loss).__name__
    why = ", and it needs no gradient" if is_tensor(loss) and not loss.requires_grad else ""
    raise TypeError(
        f"{name} gave {kind}{why}, not one number to differentiate. Fix: a loss_fn that is called "
        "with the model's output and the target, or whose first parameter is called `model`, and "
        "that returns one number (.mean())."
    )
