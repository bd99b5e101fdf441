"""assert_all_parameters_learn and assert_overfits_one_batch: train a few steps, then undo them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import numpy as np

from gradwalk.inspect.health.health import health
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.no_grad.why_no_grad import why_no_grad
from gradwalk.inspect.report import short
from gradwalk.inspect.silent.loss_mistakes import loss_mistake
from gradwalk.inspect.trace.live import gradient_of, guest, numbers_of
from gradwalk.inspect.trace.routes import listed
from gradwalk.inspect.trace.trace import Trace
from gradwalk.optim.adam import Adam
from gradwalk.testing.failures import failure, place
from gradwalk.testing.one_step import eager, is_foreign, loss_of, parameters_of, recording, title_of
from gradwalk.testing.restored import Beginning, restored

# A parameter behind a weight that starts at 0 (LoRA, the last layer of a residual branch) gets its
# first gradient in the second step.
STEPS_TO_LEARN = 3
RATES = (3e-3, 3e-2, 3e-4)  # learning rates of Adam that are tried, in this order
FALL = 0.1  # of the first loss


def assert_all_parameters_learn(
    model: Any,
    loss_fn: Callable[..., Any],
    batch: Any,
    *,
    optimizer: Any = None,
    ignore: tuple[str, ...] = (),
) -> None:
    """Raise AssertionError if a parameter that requires a gradient does not learn in three steps.

    It must be in the optimizer, get a gradient that is not zero, and change. Without an `optimizer`
    Adam makes the steps. Frozen parameters (`requires_grad=False`) are left out, and those whose
    names match `ignore` ("head.*"). `loss_fn` and `batch` are those of `assert_healthy`.

    >>> import gradwalk as gw
    >>> from gradwalk.testing import assert_all_parameters_learn
    >>> batch = gw.randn(8, 4), gw.randn(8, 2)
    >>> assert_all_parameters_learn(gw.nn.Linear(4, 2), gw.nn.MSELoss(), batch)
    """
    wanted = {
        name: parameter
        for name, parameter in parameters_of(model).items()
        if parameter.requires_grad and not any(fnmatch(name, pattern) for pattern in ignore)
    }
    with restored(model, optimizer, batch) as beginning:
        used = optimizer or _adam(model, batch, RATES[0])
        before = {name: np.array(numbers_of(p)) for name, p in wanted.items()}
        reached: set[str] = set()
        for _ in range(STEPS_TO_LEARN):
            _clear(model)
            loss_of(model, loss_fn, batch).backward()
            reached |= {n for n, p in wanted.items() if _is_some(gradient_of(p))}
            if optimizer is None and len(reached) == len(wanted):
                return
            used.step()
        without = [name for name in wanted if name not in reached]
        held = {id(p) for group in used.param_groups for p in group["params"]}
        homeless = [name for name, p in wanted.items() if id(p) not in held]
        still = [n for n, p in wanted.items() if np.array_equal(before[n], numbers_of(p))]
        if not (without or homeless or still):
            return
        if not without:
            beginning.rewind()
        _clear(model)
        with recording(is_foreign(model, batch)) as trace:
            loss_of(eager(model), loss_fn, batch).backward()
        if without:
            answers = [str(why_no_grad(wanted[name], trace)) for name in without[:3]]
            raise _without_gradient(model, without, answers)
        if homeless:
            raise _in_no_optimizer(model, homeless, wanted, used, trace)
        raise _unmoved(model, still, wanted, used, trace)


def _clear(model: Any) -> None:
    for parameter in parameters_of(model).values():
        parameter.grad = None


def _is_some(gradient: Any) -> bool:
    return gradient is not None and bool(np.any(gradient))


def _adam(model: Any, batch: Any, rate: float) -> Any:
    parameters = [p for p in parameters_of(model).values() if p.requires_grad]
    if is_foreign(model, batch):
        return guest().adam(parameters, rate)
    return Adam(parameters, lr=rate)


def _without_gradient(model: Any, names: list[str], answers: list[str]) -> AssertionError:
    count = f"{len(names)} parameter{'s' if len(names) > 1 else ''}"
    headline = f"{count} of {title_of(model)} got no gradient, or 0, in {STEPS_TO_LEARN} steps: "
    told = failure(f"{headline}{listed(names, 8)}.")
    return AssertionError("\n".join([str(told), *answers]))


def _in_no_optimizer(
    model: Any, names: list[str], wanted: dict[str, Any], optimizer: Any, trace: Trace
) -> AssertionError:
    return failure(
        f"{title_of(model)} has parameters that {type(optimizer).__name__} does not update: "
        f"{listed(names, 8)}.",
        *_use_of(trace, wanted[names[0]]),
        (
            "why",
            "they get a gradient but are in none of its groups: the layer was replaced or added "
            "after the optimizer was made, or left out of the list.",
        ),
        fix=f"make {type(optimizer).__name__}(model.parameters(), ...) after the model is "
        "complete, or add_param_group; requires_grad_(False) if they are meant to stay.",
    )


def _unmoved(
    model: Any, names: list[str], wanted: dict[str, Any], optimizer: Any, trace: Trace
) -> AssertionError:
    first = wanted[names[0]]
    rates = [g["lr"] for g in optimizer.param_groups if any(p is first for p in g["params"])]
    rate = float(rates[0]) if rates and "lr" in optimizer.param_groups[0] else math.nan
    why = (
        "the learning rate of their group is 0."
        if rate == 0
        else f"with a learning rate of {short(rate)} a step is smaller than the precision of "
        f"{str(first.dtype).rpartition('.')[2]}."
    )
    return failure(
        f"{title_of(model)} has parameters that {STEPS_TO_LEARN} steps of "
        f"{type(optimizer).__name__} did not change: {listed(names, 8)}.",
        *_use_of(trace, first),
        ("why", why),
        fix="a larger learning rate for this group (is a schedule stepped before training, or "
        "more than once a step?), or parameters in float32.",
    )


def _use_of(trace: Trace, parameter: Any) -> list[tuple[str, Any]]:
    """The operation that uses a parameter."""
    index = trace.lookup(parameter)
    consumers = trace.consumers[index] if index is not None else []
    while consumers and trace.nodes[consumers[0][0]].op in ("permute", "transpose", "reshape"):
        consumers = trace.consumers[consumers[0][0]] or []
    return place(trace, consumers[0][0]) if consumers else []


# -- overfitting -----------------------------------------------------------------------------------


def assert_overfits_one_batch(
    model: Any,
    loss_fn: Callable[..., Any],
    batch: Any,
    *,
    optimizer: Any = None,
    steps: int = 200,
    to: float | None = None,
) -> None:
    """Raise AssertionError if training on one batch does not bring its loss down.

    The loss must fall to a tenth of its first value, or to `to` where its floor is not 0, within
    `steps`. Without an `optimizer`, Adam is tried with three learning rates. On failure the error
    has what `find_nan`, `why_no_grad` and `health` say about the last step. `loss_fn` and `batch`
    are those of `assert_healthy`.

    >>> import gradwalk as gw
    >>> from gradwalk.testing import assert_overfits_one_batch
    >>> _ = gw.manual_seed(0)
    >>> model = gw.nn.Sequential(gw.nn.Linear(4, 32), gw.nn.Tanh(), gw.nn.Linear(32, 3))
    >>> batch = gw.randn(8, 4), gw.randint(0, 3, (8,))
    >>> assert_overfits_one_batch(model, gw.nn.CrossEntropyLoss(), batch)
    """
    with restored(model, optimizer, batch) as beginning:
        best: tuple[float, float] | None = None
        for rate in (None,) if optimizer else RATES:
            beginning.rewind()
            used = optimizer or _adam(model, batch, rate or RATES[0])
            first, lowest, goal = _train(model, loss_fn, batch, used, steps, to)
            if lowest <= goal:
                return
            if best is None or not best[1] <= lowest:
                best = first, lowest
        assert best is not None
        raise _stuck(model, loss_fn, batch, optimizer, steps, goal, best, beginning)


def _train(
    model: Any,
    loss_fn: Callable[..., Any],
    batch: Any,
    optimizer: Any,
    steps: int,
    to: float | None,
) -> tuple[float, float, float]:
    """The first loss, the lowest, and the goal."""
    first, goal, lowest = math.nan, -math.inf, math.inf
    for step in range(steps + 1):
        _clear(model)
        loss = loss_of(model, loss_fn, batch)
        value = float(loss.detach())
        if not step:
            first = value
            goal = to if to is not None else value - (1 - FALL) * abs(value)
        if not math.isfinite(value):
            break
        lowest = min(lowest, value)
        if lowest <= goal:
            break
        loss.backward()
        optimizer.step()
    return first, lowest, goal


def _stuck(
    model: Any,
    loss_fn: Callable[..., Any],
    batch: Any,
    optimizer: Any,
    steps: int,
    goal: float,
    best: tuple[float, float],
    beginning: Beginning,
) -> AssertionError:
    """Ask the tools about the first step, in the order of how much they explain."""
    first, lowest = best
    headline = (
        f"{title_of(model)} does not overfit one batch: in {steps} steps its loss went from "
        f"{short(first)} to {short(lowest)} at best, not to {short(goal)}."
    )
    beginning.rewind()
    with recording(is_foreign(model, batch)) as trace:
        loss_of(eager(model), loss_fn, batch).backward()
    nan = find_nan(trace)
    if nan:
        return AssertionError(f"{failure(headline)}\n{nan}")
    beginning.rewind()
    try:
        assert_all_parameters_learn(model, loss_fn, batch, optimizer=optimizer)
    except AssertionError as cause:
        return AssertionError(f"{failure(headline)}\n{cause}")
    mistake = loss_mistake(trace)
    if mistake is not None:
        return failure(headline, *place(trace, mistake.node), ("why", mistake.why), fix=mistake.fix)
    findings = health(model, trace, optimizer).findings
    if findings:
        return AssertionError(f"{failure(headline)}\n{findings[0]}")
    return failure(
        headline,
        *place(trace, trace.root),
        ("why", "gradients are healthy and every parameter learns, so the loss itself is stuck."),
        fix="look at what reaches the loss: rows that are "
        "equal but have different targets, dropout in train mode; or more steps=..., or to=... if "
        "the floor of the loss is not 0.",
    )
